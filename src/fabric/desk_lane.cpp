#include "fabric/desk_lane.h"

#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <mutex>

#include "base/own_place.h"
#include "base/wait_ready.h"

namespace comex {
namespace {

constexpr long kLookAgainNs = 1'000'000;

}  // namespace

LaneDesk* DeskLane::map(int memory) noexcept {
  void* const at =
      ::mmap(OwnPlace::take(sizeof(LaneDesk)), sizeof(LaneDesk), PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
  if (at == MAP_FAILED) return nullptr;
  ::madvise(at, sizeof(LaneDesk), MADV_DONTFORK);
  return static_cast<LaneDesk*>(at);
}

DeskLane::DeskLane(Fd socket, LaneDesk& desk, Dock* dock, std::atomic<Errc>& broken, Nanos max_spin)
    : Lane(broken, max_spin), socket_(std::move(socket)), desk_(desk), dock_(dock) {}

DeskLane::~DeskLane() {
  ::munmap(&desk_, sizeof desk_);
}

// --- sending ---

Errc DeskLane::send_some() noexcept {
  bool any = false;
  while (!queue_.empty() && ask(*queue_.front())) any = true;
  unsent_.store(!queue_.empty(), std::memory_order_relaxed);
  if (any && desk_.answerer_sleeps.load() != 0 && desk_.answerer_sleeps.exchange(0) != 0) {
    (void)::send(socket_.get(), "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
  }
  return Errc::ok;
}

bool DeskLane::ask(Transfer& transfer) noexcept {
  const std::uint32_t number = asked_.load(std::memory_order_relaxed);
  if (number - done_.load(std::memory_order_acquire) == LaneDesk::kRequests) return false;
  LaneDesk::Request& request = desk_.requests[number % LaneDesk::kRequests];
  Asked asked{&transfer};
  const bool dock = dock_ != nullptr && desk_.docked.load(std::memory_order_relaxed) != 0;
  std::uint32_t others = 0;
  for (std::size_t i = 0; i < transfer.segments.size(); ++i) {
    const Segment& segment = transfer.segments[i];
    const auto docked = dock ? dock_->find(segment.local, segment.count) : std::nullopt;
    request.extents[i] = Extent{segment.first, segment.count};
    request.pages[i] = docked ? LaneDesk::kOnDock | *docked : others;
    if (docked) asked.docked |= std::uint64_t{1} << i;
    if (!docked) others += segment.count;
  }
  if (!take_pages(others, asked)) return false;
  queue_.pop();
  request.direction = transfer.direction;
  request.priority = transfer.priority;
  request.segments = static_cast<std::uint16_t>(transfer.segments.size());
  for (std::size_t i = 0; i < transfer.segments.size(); ++i) {
    if ((asked.docked >> i & 1) != 0) continue;
    const Segment& segment = transfer.segments[i];
    request.pages[i] += asked.first_page;
    if (transfer.direction == Direction::write) {
      std::memcpy(page(request.pages[i]), segment.local, std::size_t{segment.count} << kPageShift);
    }
  }
  flight_[number % LaneDesk::kRequests] = asked;
  // The first before the second: the answer may be here before this returns.
  asked_.store(number + 1, std::memory_order_release);
  desk_.asked.store(number + 1);
  return true;
}

bool DeskLane::take_pages(std::uint32_t pages, Asked& asked) noexcept {
  const std::uint32_t at = pages_taken_ % LaneDesk::kPages;
  const std::uint32_t left_out = at + pages > LaneDesk::kPages ? LaneDesk::kPages - at : 0;
  const std::uint32_t used = pages_taken_ - pages_done_.load(std::memory_order_acquire);
  if (used + left_out + pages > LaneDesk::kPages) return false;
  asked.first_page = (at + left_out) % LaneDesk::kPages;
  asked.pages = left_out + pages;
  pages_taken_ += asked.pages;
  return true;
}

// --- receiving ---

Errc DeskLane::receive_some(bool* moved) noexcept {
  std::uint32_t number = done_.load(std::memory_order_relaxed);
  const bool over = desk_.over.load(std::memory_order_acquire) != 0;  // before: what was answered then counts
  const std::uint32_t answered = desk_.answered.load(std::memory_order_acquire);
  *moved = answered != number;
  if (!*moved && over) return Errc::disconnected;
  if (answered - number > asked_.load(std::memory_order_acquire) - number) return Errc::version;
  for (; number != answered; ++number) {
    const Asked asked = flight_[number % LaneDesk::kRequests];
    const auto result = static_cast<Errc>(desk_.results[number % LaneDesk::kRequests]);
    if (asked.transfer->direction == Direction::read && result == Errc::ok) copy_out(asked);
    pages_done_.store(pages_done_.load(std::memory_order_relaxed) + asked.pages, std::memory_order_release);
    done_.store(number + 1, std::memory_order_release);
    complete(*asked.transfer, result);
  }
  return Errc::ok;
}

void DeskLane::copy_out(const Asked& asked) const noexcept {
  std::uint32_t at = asked.first_page;
  for (std::size_t i = 0; i < asked.transfer->segments.size(); ++i) {
    if ((asked.docked >> i & 1) != 0) continue;
    const Segment& segment = asked.transfer->segments[i];
    std::memcpy(segment.local, page(at), std::size_t{segment.count} << kPageShift);
    at += segment.count;
  }
}

Transfer* DeskLane::oldest() noexcept {
  const std::uint32_t number = done_.load(std::memory_order_relaxed);
  const bool none = number == asked_.load(std::memory_order_acquire);
  return none ? nullptr : flight_[number % LaneDesk::kRequests].transfer;
}

bool DeskLane::sleep(const Deadline& deadline, Errc* error) noexcept {
  desk_.asker_sleeps.store(1);
  bool woken = desk_.answered.load() != done_.load(std::memory_order_relaxed);
  if (!woken) woken = wait_ready(socket_.get(), POLLIN, deadline);
  desk_.asker_sleeps.store(0, std::memory_order_relaxed);
  char bytes[64];
  ssize_t got = 0;
  while ((got = ::recv(socket_.get(), bytes, sizeof bytes, MSG_DONTWAIT)) > 0) {
  }
  const bool ended = got == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
  // What has been answered counts first.
  if (ended && desk_.answered.load() == done_.load(std::memory_order_relaxed)) *error = Errc::disconnected;
  return woken;
}

// --- the end ---

// And with it all that it had asked a device for.
bool DeskLane::peer_has_ended() const noexcept {
  ucred who{};
  socklen_t size = sizeof who;
  const bool known = ::getsockopt(socket_.get(), SOL_SOCKET, SO_PEERCRED, &who, &size) == 0 && who.pid > 0;
  return known && ::kill(who.pid, 0) != 0 && errno == ESRCH;
}

void DeskLane::part_with(const Asked& asked) noexcept {
  const auto over = [this] { return desk_.over.load(std::memory_order_acquire) != 0; };
  for (std::size_t i = 0; i < asked.transfer->segments.size() && !over(); ++i) {
    if ((asked.docked >> i & 1) == 0) continue;
    const Segment& segment = asked.transfer->segments[i];
    if (dock_->part(segment.local, segment.count)) continue;
    // Without memory, only the other end can say that it leaves these pages alone: in a moment, for the lane is shut.
    while (!over() && !peer_has_ended()) {
      const timespec nap{0, kLookAgainNs};
      ::nanosleep(&nap, nullptr);
    }
  }
}

void DeskLane::shut() noexcept {
  ::shutdown(socket_.get(), SHUT_RDWR);
}

void DeskLane::fail_all(Errc why) noexcept {
  const std::lock_guard receiving(receive_mutex_);
  const std::lock_guard sending(send_mutex_);
  unsent_.store(false, std::memory_order_relaxed);
  std::uint32_t number = done_.load(std::memory_order_relaxed);
  const std::uint32_t end = asked_.load(std::memory_order_relaxed);
  done_.store(end, std::memory_order_relaxed);
  const std::uint32_t answered = desk_.answered.load(std::memory_order_acquire);
  for (; number != end; ++number) {
    const Asked& asked = flight_[number % LaneDesk::kRequests];
    if (static_cast<std::int32_t>(answered - number) <= 0) part_with(asked);
    complete(*asked.transfer, why);
  }
  while (Transfer* const transfer = queue_.pop()) complete(*transfer, why);
}

}  // namespace comex
