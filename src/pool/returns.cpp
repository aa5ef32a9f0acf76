#include "pool/returns.h"

#include <sys/mman.h>

#include <algorithm>
#include <utility>

#include "wire/message.h"

namespace comex {
namespace {

constexpr std::uint32_t kKeepMapped = 16 * 1024;  // extents: 128 KiB stays for the next time

bool same_slab(FrameNo a, FrameNo b, unsigned slab_order) {
  return a.value >> slab_order == b.value >> slab_order;
}

}  // namespace

void sort_and_merge(std::vector<Extent>& extents, unsigned slab_order) {
  std::sort(extents.begin(), extents.end(), [](const Extent& a, const Extent& b) { return a.first < b.first; });
  std::size_t kept = 0;
  for (const Extent& next : extents) {
    if (kept > 0) {
      Extent& last = extents[kept - 1];
      if (next.end() <= last.end()) continue;
      if (next.first.value <= last.end() && same_slab(last.first, next.first, slab_order)) {
        last.count = static_cast<std::uint32_t>(next.end() - last.first.value);
        continue;
      }
    }
    extents[kept++] = next;
  }
  extents.resize(kept);
}

Returns::Returns(const ReturnsConfig& config) : config_(config) {
  void* memory = mmap(nullptr, std::size_t{config.capacity} * sizeof(Extent), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  // With no memory even for this, everything is stranded: correct, if wasteful.
  extents_ = memory == MAP_FAILED ? nullptr : static_cast<Extent*>(memory);
}

Returns::~Returns() {
  if (extents_ != nullptr) munmap(extents_, std::size_t{config_.capacity} * sizeof(Extent));
}

bool Returns::extend_last(Extent extent) noexcept {
  if (size_ == 0) return false;
  Extent& last = extents_[size_ - 1];
  if (last.end() != extent.first.value || !same_slab(last.first, extent.first, slab_order_)) return false;
  last.count += extent.count;
  return true;
}

bool Returns::put(const Run& run) noexcept {
  if (run.count == 0) return false;
  const std::lock_guard lock(mutex_);
  if (run.node != owner_ || owner_ == kNowhere) return false;
  returned_ += run.count;
  if (extend_last(run.extent())) return false;
  if (size_ == config_.capacity || extents_ == nullptr) {
    stranded_ += run.count;
    return false;
  }
  extents_[size_++] = run.extent();
  touched_ = std::max(touched_, size_);
  if (size_ == 1) oldest_ = Clock::now();
  return size_ == 1 || size_ == config_.batch;
}

std::optional<Clock::time_point> Returns::due_at() const {
  const std::lock_guard lock(mutex_);
  if (size_ == 0) return std::nullopt;
  return size_ >= config_.batch ? oldest_ : oldest_ + config_.age;
}

void Returns::take_batch(std::vector<Extent>& out) {
  out.clear();
  out.reserve(wire::kMaxExtents);  // before the lock: the fault path may be waiting for it
  unsigned slab_order = 0;
  {
    const std::lock_guard lock(mutex_);
    const std::uint32_t count = std::min(size_, wire::kMaxExtents);
    size_ -= count;
    out.assign(extents_ + size_, extents_ + size_ + count);
    slab_order = slab_order_;
    if (size_ == 0 && touched_ > kKeepMapped) {
      madvise(extents_ + kKeepMapped, std::size_t{touched_ - kKeepMapped} * sizeof(Extent), MADV_DONTNEED);
      touched_ = kKeepMapped;
    }
  }
  sort_and_merge(out, slab_order);
}

std::uint64_t Returns::reset(NodeId owner, unsigned slab_order) noexcept {
  const std::lock_guard lock(mutex_);
  owner_ = owner;
  slab_order_ = slab_order;
  size_ = 0;
  stranded_ = 0;
  return std::exchange(returned_, 0);
}

std::uint64_t Returns::returned() const {
  const std::lock_guard lock(mutex_);
  return returned_;
}

std::uint64_t Returns::stranded() const {
  const std::lock_guard lock(mutex_);
  return stranded_;
}

}  // namespace comex
