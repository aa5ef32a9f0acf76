#include "run/keeper/desk_clerk.h"

#include <spdlog/spdlog.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <thread>

namespace comex {
namespace {

// What orders one clerk's use of a page of the dock before another's is the process: it asks for the second when the
// first was answered. The thread sanitizer does not see through it.
void pass_through_process() {
#ifdef __SANITIZE_THREAD__
  static std::atomic<std::uint32_t> passed{0};
  passed.fetch_add(1, std::memory_order_acq_rel);
#endif
}

}  // namespace

DeskClerk::DeskClerk(Pool& pool, FarDocks& docks, NodeId node, std::uint64_t link, LaneDesk& desk, int socket)
    : pool_(pool),
      docks_(docks),
      node_(node),
      link_(link),
      desk_(desk),
      socket_(socket),
      spin_(pool.config().link.max_spin) {
  with_link([&](auto& way) {
    if (const auto known = way->enlist(desk_.pages); !known) {
      spdlog::warn("pages are copied once more: {}", known.error().message);
    }
  });
}

DeskClerk::~DeskClerk() {
  for (; answered_ != taken_; ++answered_) wait(slot(answered_).transfer);
  with_link([&](auto& way) { way->delist(desk_.pages); });
}

void DeskClerk::serve() {
  while (step()) {
  }
}

bool DeskClerk::step() {
  if (!take_all()) return false;
  if (answered_ != taken_) return answer_oldest();
  if (ended_) return false;
  wait_for_more();
  return true;
}

bool DeskClerk::take_all() {
  while (taken_ - answered_ < LaneDesk::kRequests) {
    const std::uint32_t asked = desk_.asked.load(std::memory_order_acquire);
    if (asked == taken_) return true;
    if (asked - answered_ > LaneDesk::kRequests) return false;
    if (taken_ == 0) hear(MSG_DONTWAIT);  // the dock was sent before anything was asked for
    const LaneDesk::Request request = desk_.requests[taken_ % LaneDesk::kRequests];
    // As it is now: it may change, and the compiler must not look again.
    std::atomic_signal_fence(std::memory_order_acq_rel);
    if (!take(request, slot(taken_))) return false;
    ++taken_;
  }
  return true;
}

bool DeskClerk::take(const LaneDesk::Request& asked, Slot& slot) {
  const bool sensible =
      asked.direction <= Direction::write && asked.priority <= Priority::bulk && asked.segments <= wire::kMaxSegments;
  if (!sensible) return false;
  for (std::size_t i = 0; i < asked.segments; ++i) {
    const Extent& extent = asked.extents[i];
    std::byte* const local = find(asked.pages[i], extent.count);
    if (local == nullptr) return false;
    slot.segments[i] = Segment{extent.first, extent.count, local};
  }
  slot.transfer.direction = asked.direction;
  slot.transfer.priority = asked.priority;
  slot.transfer.segments = std::span(slot.segments).first(asked.segments);
  pass_through_process();
  return with_link([&](auto& way) { way->submit(slot.transfer); });
}

std::byte* DeskClerk::find(std::uint32_t page, std::uint32_t count) {
  const bool docked = (page & LaneDesk::kOnDock) != 0;
  if (docked && dock_ == nullptr) return nullptr;
  const std::span<std::byte> memory = docked ? dock_->memory() : std::span<std::byte>(desk_.pages);
  const std::uint64_t first = page & ~LaneDesk::kOnDock;
  return first + count <= memory.size() >> kPageShift ? memory.data() + (first << kPageShift) : nullptr;
}

bool DeskClerk::answer_oldest() {
  Transfer& transfer = slot(answered_).transfer;
  wait(transfer);
  // A link that broke answers nothing: what becomes of its writes is not known.
  if (transfer.result() != Errc::ok && !stands()) return false;
  desk_.results[answered_ % LaneDesk::kRequests] = static_cast<std::uint16_t>(transfer.result());
  pass_through_process();
  desk_.answered.store(++answered_);
  if (desk_.asker_sleeps.load() != 0 && desk_.asker_sleeps.exchange(0) != 0) {
    (void)::send(socket_, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
  }
  return true;
}

void DeskClerk::wait(Transfer& transfer) {
  while (!transfer.done()) {
    const bool same = with_link([&](auto& way) { (void)way->wait(transfer); });
    // The link is being closed, which completes the transfer in a moment: see pool/link_gate.h.
    if (!same) std::this_thread::yield();
  }
}

bool DeskClerk::stands() {
  Errc broken = Errc::disconnected;
  with_link([&](auto& way) { broken = way->broken(); });
  return broken == Errc::ok;
}

void DeskClerk::wait_for_more() {
  const auto start = Clock::now();
  const auto more = [&] { return desk_.asked.load(std::memory_order_acquire) != taken_; };
  if (!spin_.spin(more)) {
    desk_.answerer_sleeps.store(1);
    if (desk_.asked.load() == taken_) hear(0);
    desk_.answerer_sleeps.store(0, std::memory_order_relaxed);
  }
  spin_.observe(Clock::now() - start);
}

void DeskClerk::hear(int flags) {
  std::array<char, 64> bytes;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control;
  iovec part{bytes.data(), bytes.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = CMSG_LEN(sizeof(int));  // there is room for two, of which one would be lost
  const ssize_t got = ::recvmsg(socket_, &message, flags | MSG_CMSG_CLOEXEC);
  if (got <= 0) {
    const bool nothing = got < 0 && (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK);
    ended_ = ended_ || !nothing;
    return;
  }
  const cmsghdr* const with = CMSG_FIRSTHDR(&message);
  if (with == nullptr || with->cmsg_type != SCM_RIGHTS) return;
  int number = -1;
  std::memcpy(&number, CMSG_DATA(with), sizeof number);
  const Fd file(number);
  if (dock_ != nullptr) return;  // once
  auto dock = docks_.open(node_, link_, file);
  if (!dock) return spdlog::warn("pages are copied once more: {}", dock.error().message);
  dock_ = *std::move(dock);
  desk_.docked.store(1, std::memory_order_relaxed);
}

}  // namespace comex
