#include "fabric/shm_link.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>

namespace comex {

Expected<std::unique_ptr<Link>> ShmLink::open(const Url& url, const LinkOptions& options) {
  auto opened = open_control(url, options);
  if (!opened) return std::move(opened).error();
  auto fds = std::move(opened->fds);
  std::unique_ptr<ShmLink> link(new ShmLink(*std::move(opened), options));
  if (!options.observe) {
    if (fds.size() != 1) return Error{Errc::version, fmt::format("{} sent no fence page", url.text())};
    if (auto done = link->set_up_window(std::move(fds[0])); !done) return std::move(done).error();
  }
  return std::unique_ptr<Link>(std::move(link));
}

ShmLink::~ShmLink() {
  if (window_ != nullptr) munmap(window_, window_bytes_);
  if (fence_ != nullptr) munmap(const_cast<std::atomic<std::uint32_t>*>(fence_), kPageSize);
}

Expected<void> ShmLink::set_up_window(Fd fence) {
  void* page = mmap(nullptr, kPageSize, PROT_READ, MAP_SHARED, fence.get(), 0);
  if (page == MAP_FAILED) return system_error("cannot map the fence page");
  fence_ = static_cast<const std::atomic<std::uint32_t>*>(page);
  window_bytes_ = std::size_t{node_.frames} << kPageShift;
  void* window = mmap(nullptr, window_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (window == MAP_FAILED) {
    return system_error(fmt::format("cannot reserve {} of addresses for the node's arena", format_size(window_bytes_)));
  }
  window_ = static_cast<std::byte*>(window);
  const auto slabs = (std::size_t{node_.frames} + (1U << node_.slab_order) - 1) >> node_.slab_order;
  held_.assign(slabs, 0);
  mapped_ = std::make_unique<std::atomic<bool>[]>(slabs);
  return {};
}

void ShmLink::submit(Transfer& transfer) noexcept {
  transfer.begin();
  Errc result = broken();
  if (result == Errc::ok) result = transfer.check();
  if (result == Errc::ok) result = copy(transfer);
  transfer.finish(result);
}

Errc ShmLink::copy(const Transfer& transfer) noexcept {
  for (const auto& segment : transfer.segments) {
    if (!mapped(segment.first, segment.count)) return Errc::denied;
    std::byte* remote = window_ + (std::size_t{segment.first.value} << kPageShift);
    const std::size_t bytes = std::size_t{segment.count} << kPageShift;
    if (transfer.direction == Direction::read) {
      std::memcpy(segment.local, remote, bytes);
    } else {
      std::memcpy(remote, segment.local, bytes);
    }
  }
  // After the copy, and not to be moved before it: if the node took anything away meanwhile, the word was set earlier.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return broken();
}

bool ShmLink::mapped(FrameNo first, std::uint32_t count) const noexcept {
  const std::uint64_t end = std::uint64_t{first.value} + count;
  if (window_ == nullptr || end > node_.frames) return false;
  const std::uint64_t last_slab = (end - 1) >> node_.slab_order;
  for (std::uint64_t slab = first.value >> node_.slab_order; slab <= last_slab; ++slab) {
    if (!mapped_[slab].load(std::memory_order_acquire)) return false;
  }
  return true;
}

Errc ShmLink::broken() const noexcept {
  const Errc severed = severed_.load(std::memory_order_acquire);
  if (severed != Errc::ok) return severed;
  return fence_ != nullptr && fence_->load(std::memory_order_acquire) != 0 ? Errc::fenced : Errc::ok;
}

void ShmLink::sever(Errc why) noexcept {
  Errc none = Errc::ok;
  severed_.compare_exchange_strong(none, why);
  shut_channel();
}

Expected<void> ShmLink::reach(std::span<const Extent> extents) {
  const std::lock_guard lock(reach_mutex_);
  std::vector<std::uint32_t> missing;
  for (const auto& extent : extents) {
    if (extent.count == 0 || extent.end() > node_.frames) return Error{Errc::invalid, "frames beyond the node's arena"};
    for_each_slab(extent, node_.slab_order, [&](std::uint32_t slab, std::uint32_t, std::uint32_t) {
      if (held_[slab] == 0) missing.push_back(slab);
      return true;
    });
  }
  std::sort(missing.begin(), missing.end());
  missing.erase(std::unique(missing.begin(), missing.end()), missing.end());
  for (std::size_t at = 0; at < missing.size(); at += wire::kMaxSlabsPerMap) {
    const auto count = std::min<std::size_t>(wire::kMaxSlabsPerMap, missing.size() - at);
    if (auto done = map_slabs(std::span(missing).subspan(at, count)); !done) return done;
  }
  for (const auto& extent : extents) {
    for_each_slab(extent, node_.slab_order, [&](std::uint32_t slab, std::uint32_t, std::uint32_t frames) {
      held_[slab] += frames;
      return true;
    });
  }
  return {};
}

Expected<void> ShmLink::map_slabs(std::span<const std::uint32_t> slabs) {
  const wire::Map request{{slabs.begin(), slabs.end()}};
  auto reply = exchange(wire::Type::map, wire::encode(request));
  if (!reply) return std::move(reply).error();
  if (reply->fds.size() != slabs.size()) {
    return Error{Errc::io, "not all of the node's memory could be opened: raise the limit of open files (ulimit -n)"};
  }
  const std::size_t slab_bytes = kPageSize << node_.slab_order;
  for (std::size_t i = 0; i < slabs.size(); ++i) {
    // Populated here, in the background, so that the first copy into a frame takes no page fault.
    void* const at = window_ + slabs[i] * slab_bytes;
    void* const got =
        mmap(at, slab_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_POPULATE, reply->fds[i].get(), 0);
    if (got == MAP_FAILED) return system_error("cannot map a slab of the node");
    mapped_[slabs[i]].store(true, std::memory_order_release);
  }
  return {};
}

void ShmLink::forget(std::span<const Extent> extents) noexcept {
  const std::lock_guard lock(reach_mutex_);
  const std::size_t slab_bytes = kPageSize << node_.slab_order;
  for (const auto& extent : extents) {
    if (extent.end() > node_.frames) continue;
    for_each_slab(extent, node_.slab_order, [&](std::uint32_t slab, std::uint32_t, std::uint32_t frames) {
      held_[slab] -= std::min(frames, held_[slab]);
      if (held_[slab] > 0 || !mapped_[slab].exchange(false)) return true;
      // If this fails the slab stays mapped, unused, until it is mapped anew.
      (void)mmap(window_ + slab * slab_bytes, slab_bytes, PROT_NONE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
      return true;
    });
  }
}

}  // namespace comex
