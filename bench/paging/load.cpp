#include "bench/paging/load.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <thread>

#include "bench/paging/load_memory.h"
#include "bench/paging/load_page.h"

namespace comex::bench {

namespace {

constexpr std::uint64_t kPercentWritten = 30;

using Pages = LoadMemory<LoadPage>;

// A thread's pages, and what it found wrong with them.
struct Part {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
  std::uint64_t wrong = 0;
  std::string first_wrong;
};

class Load {
 public:
  Load(const LoadOptions& options, const Pages& memory, std::uint64_t pages)
      : options_(options), memory_(memory), pages_(pages), parts_(options.threads) {
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      parts_[i].first = pages * i / parts_.size();
      parts_[i].count = pages * (i + 1) / parts_.size() - parts_[i].first;
    }
  }

  LoadResult run() {
    LoadResult result;
    result.pages = pages_;
    result.fill_us = timed([this](Part& part) { fill(part); });
    if (options_.corrupt) memory_[*options_.corrupt % pages_].words[kLoadPageWords - 1] ^= 1;
    for (std::size_t pass = 0; pass < options_.passes.size(); ++pass) {
      if (options_.asked && !wait_for_line()) break;
      result.passes.push_back({options_.passes[pass], timed([this, pass](Part& part) { visit(part, pass); })});
      if (options_.asked) answer(result.passes.back().us * static_cast<double>(pages_) / 1e6);
    }
    result.pages_resident = count_resident();
    for (const Part& part : parts_) {
      result.pages_wrong += part.wrong;
      if (result.first_wrong.empty()) result.first_wrong = part.first_wrong;
    }
    return result;
  }

 private:
  // The first part is the main thread's: a program with one thread is one.
  template <typename Work>
  double timed(const Work& work) {
    const auto begin = std::chrono::steady_clock::now();
    std::vector<std::thread> threads;
    for (std::size_t i = 1; i < parts_.size(); ++i) threads.emplace_back([&work, &part = parts_[i]] { work(part); });
    work(parts_[0]);
    for (std::thread& thread : threads) thread.join();
    const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - begin;
    return time.count() / static_cast<double>(pages_);
  }

  static bool wait_for_line() {
    int read = 0;
    while ((read = std::getchar()) != EOF && read != '\n') {
    }
    return read == '\n';
  }
  static void answer(double seconds) {
    std::printf("%.9f\n", seconds);
    std::fflush(stdout);
  }

  // By the page table, which counts alike whoever fills it in. 0 where the kernel does not show it.
  [[nodiscard]] std::uint64_t count_resident() const {
    constexpr std::size_t kEntries = 512;
    constexpr std::uint64_t kPresent = std::uint64_t{1} << 63;
    std::array<std::uint64_t, kEntries> entries{};
    std::uint64_t resident = 0;
    const std::uint64_t first = reinterpret_cast<std::uintptr_t>(memory_.data()) / kLoadPageBytes;
    const int file = ::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    for (std::uint64_t page = 0; page < pages_; page += kEntries) {
      const std::uint64_t count = std::min<std::uint64_t>(kEntries, pages_ - page);
      const ssize_t got = ::pread(file, entries.data(), count * 8, static_cast<off_t>((first + page) * 8));
      if (got != static_cast<ssize_t>(count * 8)) break;
      for (std::uint64_t i = 0; i < count; ++i) resident += (entries[i] & kPresent) != 0 ? 1 : 0;
    }
    if (file >= 0) ::close(file);
    return resident;
  }

  // Follows from the page and the pass, so that nothing need be kept to know what a page should hold.
  [[nodiscard]] bool written_in(std::uint64_t page, std::size_t pass) const {
    if (!writes(options_.passes[pass])) return false;
    return mix(mix(options_.seed + pass) + page) % 100 < kPercentWritten;
  }
  [[nodiscard]] std::uint64_t generation_before(std::uint64_t page, std::size_t pass) const {
    for (; pass > 0; --pass) {
      if (written_in(page, pass - 1)) return pass;
    }
    return 0;
  }

  void fill(const Part& part) const {
    for (std::uint64_t page = part.first; page < part.first + part.count; ++page) {
      fill_page(memory_[page].words, {options_.seed, page, 0});
    }
  }

  void visit(Part& part, std::size_t pass) const {
    PageOrder order(options_.passes[pass], part.count, options_.seed + pass);
    for (std::uint64_t i = 0; i < part.count; ++i) {
      const std::uint64_t page = part.first + order.next();
      std::uint64_t* const words = memory_[page].words;
      const PageIdentity before{options_.seed, page, generation_before(page, pass)};
      if (!page_is_right(words, before, pass)) {
        if (part.wrong++ == 0) part.first_wrong = describe_wrong_page(words, before);
      }
      if (written_in(page, pass)) renew_page(words, {options_.seed, page, pass + 1});
    }
  }

  const LoadOptions& options_;
  const Pages& memory_;
  std::uint64_t pages_;
  std::vector<Part> parts_;
};

}  // namespace

std::optional<LoadResult> run_load(const LoadOptions& options) {
  const Pages memory(options.bytes / kLoadPageBytes);
  if (!memory) return std::nullopt;
  return Load(options, memory, options.bytes / kLoadPageBytes).run();
}

std::string to_json(const LoadOptions& options, const LoadResult& result) {
  std::array<char, 160> piece{};
  std::snprintf(piece.data(), piece.size(), R"({"pages":%llu,"threads":%u,"fill_us":%.4f,"passes":[)",
                static_cast<unsigned long long>(result.pages), options.threads, result.fill_us);
  std::string text = piece.data();
  const char* comma = "";
  for (const LoadResult::Pass& pass : result.passes) {
    std::snprintf(piece.data(), piece.size(), R"(%s{"pattern":"%s","us":%.4f})", comma, to_string(pass.pattern).data(),
                  pass.us);
    text += piece.data();
    comma = ",";
  }
  return text + "],\"pages_resident\":" + std::to_string(result.pages_resident) +
         ",\"pages_wrong\":" + std::to_string(result.pages_wrong) + "}";
}

}  // namespace comex::bench
