// Work: a merge sort of numbers.
#include <algorithm>
#include <array>

#include "bench/paging/load_memory.h"
#include "bench/paging/load_order.h"
#include "bench/prefetch/load_kinds.h"

namespace comex::bench {

namespace {

constexpr std::uint64_t kRun = (std::uint64_t{1} << 20) / sizeof(std::uint64_t);  // 1 MiB is sorted in one go
constexpr std::uint64_t kWays = 16;                                               // runs that are merged at a time
constexpr std::uint64_t kGamma = 0x9e3779b97f4a7c15;

// The same for the same numbers in whatever order.
struct Fingerprint {
  std::uint64_t sum = 0;
  std::uint64_t mixed = 0;
  void add(std::uint64_t number) {
    sum += number;
    mixed += mix(number);
  }
  bool operator==(const Fingerprint&) const = default;
};

// The next of a run that is being merged.
struct Head {
  std::uint64_t number;
  std::uint64_t at;
  std::uint64_t end;
  bool operator<(const Head& other) const { return number > other.number; }  // the least is the first of a heap
};

class MergeSort : public LoadWork {
 public:
  MergeSort(std::uint64_t count, std::uint64_t seed) : count_(count), seed_(seed), first_(count), second_(count) {}

  [[nodiscard]] bool ready() const { return first_ && second_; }
  void prepare() override {
    for (std::uint64_t i = 0; i < count_; ++i) {
      first_[i] = mix(seed_ + i * kGamma);
      before_.add(first_[i]);
    }
  }
  void work() override {
    for (std::uint64_t at = 0; at < count_; at += kRun) {
      std::sort(&first_[at], first_.data() + std::min(at + kRun, count_));
    }
    from_ = first_.data();
    std::uint64_t* to = second_.data();
    for (std::uint64_t run = kRun; run < count_; run *= kWays) {
      for (std::uint64_t at = 0; at < count_; at += run * kWays) merge(at, run, to);
      std::swap(from_, to);
    }
  }
  std::string check() override {
    Fingerprint after;
    for (std::uint64_t i = 0; i < count_; ++i) {
      if (i > 0 && from_[i] < from_[i - 1]) return "number " + std::to_string(i) + " is out of order";
      after.add(from_[i]);
      result_ = mix(result_ + from_[i]);
    }
    return after == before_ ? "" : "the sorted numbers are not those that were to be sorted";
  }
  [[nodiscard]] std::uint64_t result() const override { return result_; }
  std::byte* data() override { return reinterpret_cast<std::byte*>(first_.data()); }

 private:
  void merge(std::uint64_t begin, std::uint64_t run, std::uint64_t* to) const {
    std::array<Head, kWays> heads{};
    std::size_t ways = 0;
    for (std::uint64_t at = begin; at < count_ && ways < kWays; at += run) {
      heads[ways++] = Head{from_[at], at + 1, std::min(at + run, count_)};
    }
    const auto first = heads.begin();
    std::make_heap(first, first + static_cast<std::ptrdiff_t>(ways));
    for (std::uint64_t* out = to + begin; ways > 0;) {
      const auto last = first + static_cast<std::ptrdiff_t>(ways);
      std::pop_heap(first, last);
      Head& head = heads[ways - 1];
      *out++ = head.number;
      if (head.at == head.end) {
        --ways;
      } else {
        head.number = from_[head.at++];
        std::push_heap(first, last);
      }
    }
  }

  std::uint64_t count_;
  std::uint64_t seed_;
  LoadMemory<std::uint64_t> first_;
  LoadMemory<std::uint64_t> second_;
  std::uint64_t* from_ = nullptr;  // the sorted ones, in the end
  Fingerprint before_;
  std::uint64_t result_ = 0;
};

}  // namespace

std::unique_ptr<LoadWork> make_merge_sort(std::uint64_t bytes, std::uint64_t seed) {
  auto sort = std::make_unique<MergeSort>(bytes / (2 * sizeof(std::uint64_t)), seed);
  return sort->ready() ? std::move(sort) : nullptr;
}

}  // namespace comex::bench
