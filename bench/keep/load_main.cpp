// comex-keep-load: the program that `comex bench keep` measures with. It does what it reads, line by line, and answers
// each with a line: "microseconds per page, longest milliseconds for one, pages that were wrong".
//
//   comex-keep-load --set 256M --orders FILE     FILE is a fifo
//
//   fill              writes all pages, in order
//   sequential        looks at all pages, in order
//   random            ... in an order that no prefetcher can guess
//   rewrite N         writes as many pages as N times all of them, picked at random
//   watch MS          looks at pages picked at random for so long, and writes half of them
//
// Ends with the file. It links nothing of comex.
#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "bench/paging/load_memory.h"
#include "bench/paging/load_number.h"
#include "bench/paging/load_order.h"
#include "bench/paging/load_page.h"

namespace {

using namespace comex::bench;
using Clock = std::chrono::steady_clock;

constexpr int kExitBadUsage = 2;
constexpr int kExitNoMemory = 3;
constexpr std::uint64_t kSeed = 7;

class Load {
 public:
  explicit Load(std::uint64_t pages) : memory_(pages), generations_(pages) {}
  [[nodiscard]] explicit operator bool() const { return bool(memory_); }

  bool obey(const std::string& order) {
    begin_ = last_ = Clock::now();
    longest_ = {};
    done_ = wrong_ = 0;
    char word[32];
    unsigned long number = 0;
    if (std::sscanf(order.c_str(), "%31s %lu", word, &number) < 1) return false;
    const std::string what = word;
    if (what == "fill") {
      fill();
    } else if (what == "sequential" || what == "random") {
      look_at_all(*parse_pattern(what));
    } else if (what == "rewrite") {
      for (std::uint64_t i = 0; i < number * pages(); ++i) visit(any(), true);
    } else if (what == "watch") {
      while (last_ < begin_ + std::chrono::milliseconds(number)) visit(any(), done_ % 2 == 0);
    } else {
      return false;
    }
    const std::chrono::duration<double, std::micro> took = Clock::now() - begin_;
    const std::chrono::duration<double, std::milli> longest = longest_;
    std::printf("%.4f %.3f %llu\n", took.count() / static_cast<double>(done_), longest.count(),
                static_cast<unsigned long long>(wrong_));
    std::fflush(stdout);
    return true;
  }

 private:
  [[nodiscard]] std::uint64_t pages() const { return generations_.size(); }
  std::uint64_t any() { return mix(++drawn_) % pages(); }
  void fill() {
    for (std::uint64_t page = 0; page < pages(); ++page) {
      fill_page(memory_[page].words, {kSeed, page, generations_[page]});
      count();
    }
  }
  void look_at_all(Pattern pattern) {
    PageOrder order(pattern, pages(), ++passes_);
    for (std::uint64_t i = 0; i < pages(); ++i) visit(order.next(), false);
  }
  void visit(std::uint64_t page, bool write) {
    std::uint64_t* const words = memory_[page].words;
    if (!page_is_right(words, {kSeed, page, generations_[page]}, done_)) ++wrong_;
    if (write) renew_page(words, {kSeed, page, ++generations_[page]});
    count();
  }
  void count() {
    const auto now = Clock::now();
    if (now - last_ > longest_) longest_ = now - last_;
    last_ = now;
    ++done_;
  }

  LoadMemory<LoadPage> memory_;
  std::vector<std::uint32_t> generations_;
  std::uint64_t drawn_ = 0;
  std::uint64_t passes_ = 0;
  // Of the order.
  Clock::time_point begin_;
  Clock::time_point last_;
  Clock::duration longest_{};
  std::uint64_t done_ = 0;
  std::uint64_t wrong_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  std::uint64_t bytes = 0;
  const bool fits = argc == 5 && std::strcmp(argv[1], "--set") == 0 && std::strcmp(argv[3], "--orders") == 0 &&
                    read_number(argv[2], bytes) && bytes >= kLoadPageBytes;
  std::FILE* const orders = fits ? std::fopen(argv[4], "re") : nullptr;
  if (orders == nullptr) {
    std::fputs("usage: comex-keep-load --set BYTES[K|M|G] --orders FILE\n", stderr);
    return kExitBadUsage;
  }
  Load load(bytes / kLoadPageBytes);
  if (!load) return kExitNoMemory;
  char line[64];
  while (std::fgets(line, sizeof line, orders) != nullptr) {
    if (!load.obey(line)) return kExitBadUsage;
  }
  return 0;
}
