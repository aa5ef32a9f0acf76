#include "pool/extent_list.h"

#include <algorithm>
#include <utility>

namespace comex {

ExtentList::ExtentList(std::uint32_t capacity) : capacity_(capacity), extents_(std::make_unique<Extent[]>(capacity)) {}

std::uint32_t ExtentList::pick(std::uint32_t want) const noexcept {
  if (current_ < size_ && extents_[current_].count >= want) return current_;
  std::uint32_t fit = size_;  // the smallest that gives all: large ones are kept for large wants
  std::uint32_t largest = 0;
  for (std::uint32_t i = 0; i < size_; ++i) {
    const std::uint32_t count = extents_[i].count;
    if (count >= want && (fit == size_ || count < extents_[fit].count)) fit = i;
    if (count > extents_[largest].count) largest = i;
  }
  return fit < size_ ? fit : largest;
}

std::optional<ExtentList::Taken> ExtentList::take(std::uint32_t want) noexcept {
  if (want == 0 || frames() == 0) return std::nullopt;
  const std::lock_guard lock(mutex_);
  if (size_ == 0) return std::nullopt;
  current_ = pick(want);
  Extent& from = extents_[current_];
  const std::uint32_t count = std::min(want, from.count);
  const Run run{owner_, from.first, count};
  from.first = from.first + count;
  from.count -= count;
  if (from.count == 0) from = extents_[--size_];
  const std::uint32_t left = frames() - count;
  frames_.store(left, std::memory_order_relaxed);
  taken_ += count;
  return Taken{run, left};
}

bool ExtentList::insert(NodeId owner, Extent extent) noexcept {
  if (owner != owner_ || owner == kNowhere || size_ == capacity_) return false;
  extents_[size_++] = extent;
  frames_.store(frames() + extent.count, std::memory_order_relaxed);
  return true;
}

bool ExtentList::add(NodeId owner, Extent extent) noexcept {
  const std::lock_guard lock(mutex_);
  return insert(owner, extent);
}

// What is put back is usually the tail of what was carved last: then that extent grows back, and flushing half-filled
// batches does not leave a list of crumbs.
bool ExtentList::grow_current(Extent extent) noexcept {
  if (current_ >= size_) return false;
  Extent& current = extents_[current_];
  const bool adjoins = extent.end() == current.first.value;
  if (!adjoins || extent.first.value >> slab_order_ != current.first.value >> slab_order_) return false;
  current = Extent{extent.first, extent.count + current.count};
  frames_.store(frames() + extent.count, std::memory_order_relaxed);
  return true;
}

bool ExtentList::put_back(const Run& run) noexcept {
  const std::lock_guard lock(mutex_);
  if (run.node != owner_) return false;
  if (!grow_current(run.extent()) && !insert(run.node, run.extent())) return false;
  taken_ -= run.count;
  return true;
}

void ExtentList::drain(std::vector<Extent>& out, std::uint32_t keep) {
  out.reserve(out.size() + capacity_);  // before the lock: the fault path may be waiting for it
  const std::lock_guard lock(mutex_);
  std::uint32_t left = frames();
  while (size_ > 0 && left - extents_[size_ - 1].count >= keep) {
    out.push_back(extents_[--size_]);
    left -= out.back().count;
  }
  frames_.store(left, std::memory_order_relaxed);
}

std::uint64_t ExtentList::reset(NodeId owner, unsigned slab_order) noexcept {
  const std::lock_guard lock(mutex_);
  owner_ = owner;
  slab_order_ = slab_order;
  size_ = 0;
  frames_.store(0, std::memory_order_relaxed);
  return std::exchange(taken_, 0);
}

std::uint64_t ExtentList::taken() const noexcept {
  const std::lock_guard lock(mutex_);
  return taken_;
}

}  // namespace comex
