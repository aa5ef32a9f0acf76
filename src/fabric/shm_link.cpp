#include "fabric/shm_link.h"

#include <fmt/format.h>

namespace comex {
namespace {

// Of all links of this process: the same slab mapped again, by this link or the one that resumes its session, is told
// from what was there before.
std::uint64_t next_life() {
  static std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

}  // namespace

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

Expected<void> ShmLink::set_up_window(Fd fence) {
  mapped_ = std::make_unique<std::atomic<bool>[]>(slabs());
  if (window_.open(fence.get(), node_.frames, node_.slab_order, mapped_.get()) != Errc::ok) {
    return system_error(fmt::format("cannot map the fence page, or reserve {} of addresses for the node's arena",
                                    format_size(std::uint64_t{node_.frames} << kPageShift)));
  }
  if (exportable_) {
    fence_ = std::move(fence);
    exports_.resize(slabs());
  }
  return {};
}

void ShmLink::submit(Transfer& transfer) noexcept {
  transfer.begin();
  Errc result = broken();
  if (result == Errc::ok) result = transfer.check();
  if (result == Errc::ok) result = window_.copy(transfer);
  if (result == Errc::ok) result = broken();
  transfer.finish(result);
}

Errc ShmLink::broken() const noexcept {
  const Errc severed = severed_.load(std::memory_order_acquire);
  if (severed != Errc::ok) return severed;
  return window_.fenced() ? Errc::fenced : Errc::ok;
}

void ShmLink::sever(Errc why) noexcept {
  Errc none = Errc::ok;
  severed_.compare_exchange_strong(none, why);
  shut_channel();
}

Expected<void> ShmLink::open_slabs(std::span<const std::uint32_t> slabs) {
  const wire::Map request{{slabs.begin(), slabs.end()}};
  auto reply = exchange(wire::Type::map, wire::encode(request));
  if (!reply) return std::move(reply).error();
  if (reply->fds.size() != slabs.size()) {
    return Error{Errc::io, "not all of the node's memory could be opened: raise the limit of open files (ulimit -n)"};
  }
  for (std::size_t i = 0; i < slabs.size(); ++i) {
    if (window_.map(slabs[i], reply->fds[i].get()) != Errc::ok) return system_error("cannot map a slab of the node");
    if (!exportable_) continue;
    const std::lock_guard lock(exports_mutex_);
    exports_[slabs[i]] = SlabExport{std::move(reply->fds[i]), next_life()};
  }
  return {};
}

void ShmLink::close_slab(std::uint32_t slab) noexcept {
  window_.unmap(slab);
  if (!exportable_) return;
  const std::lock_guard lock(exports_mutex_);
  exports_[slab] = {};
}

Expected<Fd> ShmLink::export_fence() {
  if (!fence_) return Link::export_fence();
  Fd copy = fence_.duplicate();
  if (!copy) return system_error("cannot hand over the fence page");
  return copy;
}

Expected<SlabExport> ShmLink::export_slab(std::uint32_t slab) {
  if (!exportable_) return Link::export_slab(slab);
  const std::lock_guard lock(exports_mutex_);
  if (slab >= exports_.size() || !exports_[slab].memory) {
    return Error{Errc::denied, fmt::format("no frame of slab {} is held", slab)};
  }
  Fd copy = exports_[slab].memory.duplicate();
  if (!copy) return system_error("cannot hand over a slab: raise the limit of open files (ulimit -n)");
  return SlabExport{std::move(copy), exports_[slab].life};
}

}  // namespace comex
