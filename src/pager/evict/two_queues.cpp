#include "pager/evict/two_queues.h"

#include <mutex>

namespace comex {
namespace {

// Missed within this many ticks counts when the queues are compared.
constexpr std::uint32_t kWatched = 1;
// So many cohorts that have been watched for long enough are compared.
constexpr std::uint32_t kCompared = 4;
// Fewer pages say nothing.
constexpr std::uint64_t kLeastCompared = 64;
// The main queue counts as full a bit before it is, or every block that leaves would open it for 64 pages.
constexpr std::uint64_t kFullShare = 32;
// The average of what is local moves by one in so many of the difference, with each block that leaves.
constexpr std::uint64_t kSlowly = 64;

constexpr std::uint8_t kFromMain = 1 << (Mark::kBits - 1);

}  // namespace

TwoQueues::TwoQueues(Memory& memory, std::uint64_t most, const Share& share) noexcept
    : share_(share), queues_{BlockQueue(memory, most), BlockQueue(memory, most)} {}

// By blocks, so that neighbours stay together.
bool TwoQueues::may_enter(PageNo page) const noexcept {
  const std::uint64_t most = most_in_main();
  if (in_main() + most / kFullShare < most || stale_.load(std::memory_order_relaxed)) return true;
  constexpr std::uint32_t kOdd = 0x9e3779b1;  // spreads what it multiplies over all bits
  return ((BlockNo::of(page).value + clock_.now()) * kOdd >> 16) % kTries == 0;
}

Mark TwoQueues::arrive(PageNo page, std::optional<Mark> left) noexcept {
  if (!left) return Mark{kProbation};
  const std::uint32_t then = left->value % kTimes;
  const std::uint32_t ago = clock_.since(then, kTimeBits);
  const bool from_main = (left->value & kFromMain) != 0;
  if (ago <= kWatched) cohorts_[from_main ? kMain : kProbation][then].missed.fetch_add(1, std::memory_order_relaxed);
  if (ago > kSoon || !may_enter(page)) return Mark{kProbation};
  in_main_.fetch_add(1, std::memory_order_relaxed);
  return Mark{kMain};
}

void TwoQueues::admit(BlockNo block, unsigned queue) noexcept {
  const std::lock_guard lock(mutex_);
  queues_[queue].push(block);
}

std::optional<Victim> TwoQueues::next(bool in_vain) noexcept {
  const std::lock_guard lock(mutex_);
  const unsigned due = in_main() > most_in_main() ? kMain : kProbation;
  const unsigned first = in_vain ? 1 - last_ : due;
  for (const unsigned queue : {first, 1 - first}) {
    last_ = queue;
    if (const auto block = queues_[queue].pop()) return Victim{*block, queue};
  }
  return std::nullopt;
}

Mark TwoQueues::leave(unsigned queue, std::uint64_t pages) noexcept {
  const std::lock_guard lock(mutex_);
  const std::uint32_t now = clock_.now() % kTimes;
  cohorts_[queue][now].left.fetch_add(static_cast<std::uint32_t>(pages), std::memory_order_relaxed);
  if (queue == kMain) in_main_.fetch_sub(pages, std::memory_order_relaxed);
  const std::uint64_t local = local_.load(std::memory_order_relaxed);
  const std::uint64_t now_local = share_.local();
  local_.store(local == 0 ? now_local : local - local / kSlowly + now_local / kSlowly, std::memory_order_relaxed);
  if (clock_.advance(pages, local)) compare();
  return Mark{static_cast<std::uint8_t>(now | (queue == kMain ? kFromMain : 0))};
}

void TwoQueues::forget(Mark mark) noexcept {
  if (mark.value == kMain) in_main_.fetch_sub(1, std::memory_order_relaxed);
}

void TwoQueues::compare() noexcept {
  const std::uint32_t now = clock_.now();
  std::array<std::uint64_t, kMostQueues> left{};
  std::array<std::uint64_t, kMostQueues> missed{};
  for (unsigned queue = 0; queue < kMostQueues; ++queue) {
    for (std::uint32_t ago = kWatched + 1; ago <= kWatched + kCompared; ++ago) {
      const Cohort& cohort = cohorts_[queue][(now - ago) % kTimes];
      left[queue] += cohort.left.load(std::memory_order_relaxed);
      missed[queue] += cohort.missed.load(std::memory_order_relaxed);
    }
    Cohort& next = cohorts_[queue][now % kTimes];
    next.left.store(0, std::memory_order_relaxed);
    next.missed.store(0, std::memory_order_relaxed);
  }
  const bool enough = left[kMain] >= kLeastCompared && left[kProbation] >= kLeastCompared;
  // Three quarters of the rate.
  const bool stale = enough && 4 * missed[kMain] * left[kProbation] < 3 * missed[kProbation] * left[kMain];
  stale_.store(stale, std::memory_order_relaxed);
}

}  // namespace comex
