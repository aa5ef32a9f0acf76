// Every prefetcher on a few kinds of programs, without a pager: what faults, what is brought in, what of it is used.
#include <gtest/gtest.h>

#include <cstdio>
#include <deque>
#include <functional>
#include <random>
#include <unordered_map>
#include <vector>

#include "pager/prefetch/choice.h"

namespace comex {
namespace {

constexpr PageNo kFirstPage{0x7'f000'0000};

// The memory of a program that begins all remote: what is mapped and what is in the read buffer, each with room for
// some pages, of which the first to come is the first to go.
class Simulated {
 public:
  // `one_in`: see Miss.
  Simulated(const Prefetcher& prefetcher, bool far, std::uint32_t one_in = 8)
      : prefetcher_(prefetcher), far_(far), one_in_(one_in) {}

  // `thread`: whose history it is; `offset`: where in the page.
  void touch(std::uint64_t page, std::size_t thread = 0, std::uint32_t offset = 0) {
    ++touched;
    const auto found = pages_.find(page);
    const Where where = found == pages_.end() ? Where::remote : found->second.where;
    if (where != Where::remote && std::exchange(found->second.unused, false)) ++used;
    if (where == Where::mapped) return;
    if (where == Where::remote) ++faults;
    fault(page, where, thread, offset);
  }
  [[nodiscard]] double coverage() const { return 1 - static_cast<double>(faults) / static_cast<double>(touched); }
  [[nodiscard]] double accuracy() const {
    return brought == 0 ? 1 : static_cast<double>(used) / static_cast<double>(brought);
  }

  std::uint64_t touched = 0;
  std::uint64_t faults = 0;  // that had to be read from a node
  std::uint64_t buffered = 0;
  std::uint64_t brought = 0;
  std::uint64_t used = 0;
  std::uint64_t known = 0;  // pages mapped ahead that the prefetcher knows to have been used

 private:
  enum class Where : std::uint8_t { remote, buffer, mapped };
  struct Page {
    Where where;
    bool unused;
  };
  static constexpr std::size_t kMapped = 4096;
  static constexpr std::size_t kBuffer = 512;

  void fault(std::uint64_t page, Where where, std::size_t thread, std::uint32_t offset) {
    buffered += where == Where::buffer;
    put(page, Where::mapped, false);
    const Miss::From from = where == Where::buffer ? Miss::From::buffer : Miss::From::node;
    const Miss miss{kFirstPage + page, from, far_, false, one_in_, offset};
    if (histories_.size() <= thread) histories_.resize(thread + 1);
    const Plan plan = prefetcher_.plan(histories_[thread], miss);
    known += plan.used;
    const Line line{PageNo{page}, offset, plan.step};
    Brought result{.mapped = plan.mapped};
    for (std::int64_t i = -std::int64_t{plan.before}; i <= std::int64_t{plan.after}; ++i) {
      const std::uint64_t other = line.at(i).value;
      const auto found = pages_.find(other);
      if (i == 0 || other > UINT32_MAX || (found != pages_.end() && found->second.where == Where::mapped)) continue;
      const bool here = found != pages_.end() && found->second.where == Where::buffer;
      if (here && !plan.mapped) continue;
      result.from_buffer += here;
      ++result.pages;
      if (!here) ++brought;
      put(other, plan.mapped ? Where::mapped : Where::buffer, here ? found->second.unused : true);
    }
    if (result.pages == 0) return;
    while (plan.mapped && is_mapped(line.at(std::int64_t{result.covered} + 1).value)) ++result.covered;
    prefetcher_.brought(histories_[thread], miss, plan, result);
  }
  bool is_mapped(std::uint64_t page) {
    const auto found = pages_.find(page);
    return found != pages_.end() && found->second.where == Where::mapped;
  }
  void put(std::uint64_t page, Where where, bool unused) {
    pages_[page] = Page{where, unused};
    auto& queue = where == Where::mapped ? mapped_ : buffer_;
    queue.push_back(page);
    if (queue.size() <= (where == Where::mapped ? kMapped : kBuffer)) return;
    const auto oldest = pages_.find(queue.front());
    if (oldest != pages_.end() && oldest->second.where == where) pages_.erase(oldest);
    queue.pop_front();
  }

  const Prefetcher& prefetcher_;
  const bool far_;
  const std::uint32_t one_in_;
  std::vector<History> histories_;
  std::unordered_map<std::uint64_t, Page> pages_;
  std::deque<std::uint64_t> mapped_;
  std::deque<std::uint64_t> buffer_;
};

constexpr std::uint64_t kTouches = 40'000;
constexpr std::uint64_t kApart = 65'536;  // between arrays: 256 MiB

void sequential(Simulated& program) {
  for (std::uint64_t i = 0; i < kTouches; ++i) program.touch(i);
}
void backwards(Simulated& program) {
  for (std::uint64_t i = 0; i < kTouches; ++i) program.touch(kTouches - i);
}
void stride10(Simulated& program) {
  for (std::uint64_t i = 0; i < kTouches; ++i) program.touch(i * 10);
}
void wide_stride(Simulated& program) {
  for (std::uint64_t i = 0; i < kTouches; ++i) program.touch(i * 300);
}
void wide_strides(Simulated& program) {
  constexpr std::array<std::uint64_t, 4> kStrides = {300, 500, 700, 1100};
  for (std::uint64_t i = 0; i < kTouches; ++i) program.touch(i % 4 * 256 * kApart + i / 4 * kStrides[i % 4]);
}
// Down the columns of two matrices with rows of 300,000 and 410,000 bytes, in turn.
void wide_columns(Simulated& program) {
  constexpr std::array<std::uint64_t, 2> kRows = {300'000, 410'000};
  for (std::uint64_t i = 0; i < kTouches; ++i) {
    const std::uint64_t row = i / 2 % 10'000;
    const std::uint64_t column = i / 2 / 10'000;
    const std::uint64_t byte = i % 2 * 256 * kApart * kPageSize + row * kRows[i % 2] + column * kPageSize * 3 + 8;
    program.touch(byte / kPageSize, 0, static_cast<std::uint32_t>(byte % kPageSize));
  }
}
// A stride, and every other touch anywhere.
void wide_and_random(Simulated& program) {
  std::mt19937_64 random(5);
  for (std::uint64_t i = 0; i < kTouches; ++i)
    program.touch(i % 2 != 0 ? i / 2 * 300 : 10'000'000 + random() % 10'000'000);
}
// Down the columns of a matrix with rows of 24,000 bytes.
void columns(Simulated& program) {
  for (std::uint64_t i = 0; i < kTouches; ++i) {
    const std::uint64_t byte = i % 10'000 * 24'000 + i / 10'000 * kPageSize * 3 + 8;
    program.touch(byte / kPageSize, 0, static_cast<std::uint32_t>(byte % kPageSize));
  }
}
// Every tenth page, somewhere in it.
void stride10_anywhere(Simulated& program) {
  std::mt19937_64 random(8);
  for (std::uint64_t i = 0; i < kTouches; ++i)
    program.touch(i * 10, 0, static_cast<std::uint32_t>(random() % kPageSize));
}
void changing_stride(Simulated& program) {
  std::uint64_t page = 0;
  for (std::uint64_t i = 0; i < kTouches; ++i) program.touch(page += std::array{1, 10, 3, 7}[i / 500 % 4]);
}
void four_streams(Simulated& program) {
  for (std::uint64_t i = 0; i < kTouches; ++i) program.touch(i % 4 * kApart + i / 4);
}
void four_strides(Simulated& program) {
  constexpr std::array<std::uint64_t, 4> kStrides = {1, 10, 3, 7};
  for (std::uint64_t i = 0; i < kTouches; ++i) program.touch(i % 4 * 2 * kApart + i / 4 * kStrides[i % 4]);
}
void four_threads(Simulated& program) {
  constexpr std::array<std::uint64_t, 4> kStrides = {1, 10, 3, 7};
  for (std::uint64_t i = 0; i < kTouches; ++i) program.touch(i % 4 * 2 * kApart + i / 4 * kStrides[i % 4], i % 4);
}
void close_rows(Simulated& program) {  // a stencil: five rows of 100 pages each at a time
  for (std::uint64_t i = 0; i < kTouches; ++i) program.touch(i / 500 * 500 + i % 5 * 100 + i / 5 % 100);
}
void scan_and_random(Simulated& program) {
  std::mt19937_64 random(7);
  for (std::uint64_t i = 0; i < kTouches; ++i) program.touch(i % 2 != 0 ? i / 2 : 1'000'000 + random() % 10'000'000);
}
void holes(Simulated& program) {  // a scan that leaves out a page now and then
  std::mt19937_64 random(9);
  std::uint64_t page = 0;
  for (std::uint64_t i = 0; i < kTouches; ++i) program.touch(page += random() % 16 == 0 ? 2 : 1);
}
void clusters(Simulated& program) {  // here and there sixteen neighbours, in no order
  std::mt19937_64 random(3);
  for (std::uint64_t i = 0; i < kTouches; i += 16) {
    const std::uint64_t first = random() % 100'000 * 16;
    for (std::uint64_t k = 0; k < 16; ++k) program.touch(first + k * 5 % 16);
  }
}
void short_runs(Simulated& program) {
  std::mt19937_64 random(4);
  for (std::uint64_t i = 0; i < kTouches; i += 6) {
    const std::uint64_t first = random() % 1'000'000;
    for (std::uint64_t k = 0; k < 6; ++k) program.touch(first + k);
  }
}
// A product of matrices, as libraries do it: twelve rows of 12,000 bytes at a time, down their first columns, then down
// the next ones; and eight rows of another, in an order of their own.
void tiles(Simulated& program) {
  constexpr std::uint64_t kRow = 12'000;
  constexpr std::array<std::uint64_t, 8> kOrder = {0, 2, 1, 3, 4, 5, 6, 7};
  const auto touch = [&](std::uint64_t byte) {
    program.touch(byte / kPageSize, 0, static_cast<std::uint32_t>(byte % kPageSize));
  };
  for (std::uint64_t tile = 0; program.touched < kTouches; ++tile) {
    for (std::uint64_t column = 0; column < kRow; column += kPageSize / 2) {
      for (std::uint64_t row = 0; row < 12; ++row) touch((tile * 12 + row) * kRow + column);
      for (const std::uint64_t row : kOrder) touch(kApart * kPageSize + (tile * 8 + row) * kRow + column);
    }
  }
}
void random_pages(Simulated& program) {
  std::mt19937_64 random(5);
  for (std::uint64_t i = 0; i < kTouches; ++i) program.touch(random() % 1'000'000);
}

struct Workload {
  const char* name;
  void (*run)(Simulated&);
};
constexpr std::array kWorkloads = {Workload{"sequential", sequential},
                                   Workload{"backwards", backwards},
                                   Workload{"stride 10", stride10},
                                   Workload{"stride 300", wide_stride},
                                   Workload{"columns", columns},
                                   Workload{"stride anywhere", stride10_anywhere},
                                   Workload{"changing stride", changing_stride},
                                   Workload{"4 streams", four_streams},
                                   Workload{"4 strides", four_strides},
                                   Workload{"4 threads", four_threads},
                                   Workload{"4 wide strides", wide_strides},
                                   Workload{"wide columns", wide_columns},
                                   Workload{"5 close rows", close_rows},
                                   Workload{"scan and random", scan_and_random},
                                   Workload{"holes", holes},
                                   Workload{"clusters", clusters},
                                   Workload{"short runs", short_runs},
                                   Workload{"tiles", tiles},
                                   Workload{"random", random_pages}};

Simulated run(Prefetch choice, const std::function<void(Simulated&)>& workload, bool far = false) {
  Simulated program(prefetcher_of(choice), far);
  workload(program);
  return program;
}

// Coverage: of all touches, how many were served without a read of their own. Accuracy: of what was brought, how much
// was used.
struct Bound {
  Prefetch policy;
  void (*workload)(Simulated&);
  double coverage;
  double accuracy;
};

TEST(Policies, whatTheyAreFor) {
  using enum Prefetch;
  const Bound bounds[] = {
      {next, sequential, 0.96, 0.99},        {next, four_threads, 0.24, 0.99},
      {readahead, sequential, 0.87, 0.99},   {readahead, backwards, 0.87, 0.99},
      {readahead, four_streams, 0.5, 0.9},   {stride, sequential, 0.96, 0.99},
      {stride, backwards, 0.96, 0.99},       {stride, stride10, 0.96, 0.99},
      {stride, changing_stride, 0.95, 0.97}, {stride, four_strides, 0.96, 0.99},
      {stride, four_threads, 0.96, 0.99},    {leap, sequential, 0.96, 0.99},
      {leap, backwards, 0.96, 0.99},         {leap, stride10, 0.96, 0.99},
      {leap, wide_stride, 0.96, 0.99},       {leap, changing_stride, 0.93, 0.95},
      {leap, four_streams, 0.96, 0.99},      {leap, four_strides, 0.96, 0.99},
      {leap, four_threads, 0.96, 0.99},      {leap, close_rows, 0.8, 0.99},
      {leap, scan_and_random, 0.48, 0.99},   {leap, holes, 0.8, 0.85},
      {leap, columns, 0.96, 0.99},           {leap, stride10_anywhere, 0.96, 0.99},
      {automatic, tiles, 0.94, 0.99},        {automatic, close_rows, 0.95, 0.99},
      {stride, wide_stride, 0.96, 0.99},     {stride, wide_strides, 0.95, 0.98},
      {leap, wide_strides, 0.95, 0.98},      {leap, wide_columns, 0.95, 0.98},
      {leap, wide_and_random, 0.48, 0.98},   {automatic, wide_strides, 0.95, 0.98},
      {automatic, wide_columns, 0.95, 0.98},
  };
  for (const bool far : {false, true}) {
    for (const Bound& bound : bounds) {
      const Simulated program = run(bound.policy, bound.workload, far);
      const auto index = static_cast<std::size_t>(&bound - bounds);
      EXPECT_GE(program.coverage(), bound.coverage) << "bound " << index;
      // Now and then it looks at neighbours of far pages.
      if (far && bound.policy == next) continue;
      EXPECT_GE(program.accuracy(), bound.accuracy) << "bound " << index;
    }
  }
}

TEST(Policies, random_bringsNextToNothing) {
  for (std::size_t i = 0; i < kPrefetchNames.size(); ++i) {
    EXPECT_LE(run(static_cast<Prefetch>(i), random_pages, false).brought, 40U) << kPrefetchNames[i];
    EXPECT_LE(run(static_cast<Prefetch>(i), random_pages, true).brought, kTouches / 20) << kPrefetchNames[i];
  }
}

TEST(Policies, leapFaultsLessThanReadAhead) {
  for (const Workload& workload : kWorkloads) {
    // Where there is no trend there is nothing to follow: neighbours are another's.
    if (workload.run == random_pages || workload.run == clusters || workload.run == short_runs) continue;
    const Simulated leap = run(Prefetch::leap, workload.run);
    const Simulated readahead = run(Prefetch::readahead, workload.run);
    EXPECT_LT(leap.faults + leap.buffered, (readahead.faults + readahead.buffered) * 3 / 4) << workload.name;
    EXPECT_LT(leap.faults, readahead.faults) << workload.name;
  }
}

// They look away while there is nothing to be found, and see soon when there is.
TEST(Policies, whatBeginsAfterFaultsAtRandomIsFound) {
  const auto random_then = [](std::uint64_t apart) {
    return [apart](Simulated& program) {
      random_pages(program);
      for (std::uint64_t i = 0; i < kTouches; ++i) program.touch(2'000'000 + i * apart);
    };
  };
  for (const Prefetch policy : {Prefetch::leap, Prefetch::automatic}) {
    const std::uint64_t before = run(policy, random_pages).faults;
    const auto faults_after = [&](std::uint64_t apart) { return run(policy, random_then(apart)).faults - before; };
    EXPECT_LT(faults_after(1), kTouches / 31 + 20) << kPrefetchNames[static_cast<std::size_t>(policy)];
    EXPECT_LT(faults_after(300), kTouches / 31 + 2 * Attention::kAway)
        << kPrefetchNames[static_cast<std::size_t>(policy)];
  }
}

// Scans that are too short to be worth a look after they are over.
TEST(Policies, shortScansBetweenFaultsAtRandomAreFound) {
  const auto mixed = [](Simulated& program) {
    std::mt19937_64 random(1);
    for (std::uint64_t round = 0; round < 100; ++round) {
      for (int i = 0; i < 300; ++i) program.touch(random() % 1'000'000);
      for (std::uint64_t i = 0; i < 400; ++i) program.touch(2'000'000 + round * 1000 + i);
    }
  };
  for (const Prefetch policy : {Prefetch::leap, Prefetch::automatic}) {
    EXPECT_LT(run(policy, mixed).faults, 100 * (300 + 50)) << kPrefetchNames[static_cast<std::size_t>(policy)];
  }
}

// As good as the better of the two that it picks from, or nearly.
TEST(Policies, autoIsNotFarBehindTheBest) {
  for (const bool far : {false, true}) {
    for (const Workload& workload : kWorkloads) {
      const Simulated picks = run(Prefetch::automatic, workload.run, far);
      const Simulated leap = run(Prefetch::leap, workload.run, far);
      const Simulated next = run(Prefetch::next, workload.run, far);
      // Near, neighbours are not read: what is not followed faults.
      const std::uint64_t best = far ? std::min(leap.faults, next.faults) : leap.faults;
      EXPECT_LE(picks.faults, best + best / 7) << workload.name << (far ? ", far" : ", near");
    }
  }
}

TEST(Policies, autoKnowsRegionsThatAreUsedAllOver) {
  for (const auto workload : {tiles, close_rows, clusters}) {
    EXPECT_LT(2 * run(Prefetch::automatic, workload).faults, run(Prefetch::leap, workload).faults);
  }
}

TEST(Policies, autoStopsWhatIsInVain) {
  // Three pages in a row, again and again, and never the fourth.
  const auto in_vain = [](Simulated& program) {
    std::mt19937_64 random(4);
    for (std::uint64_t i = 0; i < kTouches; i += 3) {
      const std::uint64_t first = random() % 1'000'000;
      for (std::uint64_t k = 0; k < 3; ++k) program.touch(first + k);
    }
  };
  Simulated leap(prefetcher_of(Prefetch::leap), false, 2);
  in_vain(leap);
  Simulated picks(prefetcher_of(Prefetch::automatic), false, 2);
  in_vain(picks);
  ASSERT_LT(2 * leap.used, leap.brought);
  EXPECT_LT(picks.brought, leap.brought / 3);
}

// To be read.
TEST(Policies, table) {
  for (const bool far : {false, true}) {
    std::printf("%-16s %-10s %8s %9s %8s %8s  (%s, %lu touches)\n", "workload", "policy", "faults", "buffered",
                "brought", "used", far ? "far" : "near", kTouches);
    for (const Workload& workload : kWorkloads) {
      for (std::size_t i = 0; i < kPrefetchNames.size(); ++i) {
        const Simulated program = run(static_cast<Prefetch>(i), workload.run, far);
        std::printf("%-16s %-10s %8lu %9lu %8lu %8lu\n", workload.name, kPrefetchNames[i].data(), program.faults,
                    program.buffered, program.brought, program.used);
        EXPECT_LE(program.used, program.brought);
        EXPECT_LE(program.known, program.brought);
      }
    }
  }
}

}  // namespace
}  // namespace comex
