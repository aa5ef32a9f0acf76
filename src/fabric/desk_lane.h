// A lane to another process of this host that moves the pages for us, through memory that both have (lane_desk.h).
//
//   queue_  -->  asked (on the desk, up to 32)  -->  answered, in that order
//
// Pages in the dock (dock.h) are not copied on the way. When a transfer is given up that the other process, or a
// device, may still be at, its pages in the dock are parted with: what is still written there is nobody's. All other
// pages are copied between the callers' memory and the desk.
//
// How threads wait is in lane.h. Locks, in order: receive_mutex_, send_mutex_.
// Fault path: all functions. Needs neither OpenSSL nor fmt.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>

#include "base/fd.h"
#include "fabric/dock.h"
#include "fabric/lane.h"
#include "fabric/lane_desk.h"

namespace comex {

class DeskLane final : public Lane {
 public:
  // The desk in that file, mapped where no forked child has it. Null: there is no memory.
  static LaneDesk* map(int memory) noexcept;

  // Unmaps the desk when it goes. `broken`: see Lane. `dock`: that of this process, which the other end has been sent;
  // null: none.
  DeskLane(Fd socket, LaneDesk& desk, Dock* dock, std::atomic<Errc>& broken, Nanos max_spin);
  ~DeskLane() override;

  void fail_all(Errc why) noexcept override;
  void shut() noexcept override;
  [[nodiscard]] int fd() const noexcept { return socket_.get(); }

 private:
  struct Asked {
    Transfer* transfer = nullptr;
    std::uint64_t docked = 0;      // segments whose pages are in the dock
    std::uint32_t first_page = 0;  // of those of the desk
    std::uint32_t pages = 0;       // ... with those that were left out to have them in one piece
  };
  static_assert(wire::kMaxSegments <= 64, "a bit for each");

  Errc send_some() noexcept override;
  Errc receive_some(bool* moved) noexcept override;
  bool sleep(const Deadline& deadline, Errc* error) noexcept override;
  bool help(Errc*) noexcept override { return false; }
  Transfer* oldest() noexcept override;

  // REQUIRES, of both: send_mutex_. False, or nothing: there is no room now.
  bool ask(Transfer& transfer) noexcept;
  bool take_pages(std::uint32_t pages, Asked& asked) noexcept;
  void copy_out(const Asked& asked) const noexcept;
  // The other end may still be at it. Waits, if it has to, until it is not.
  void part_with(const Asked& asked) noexcept;
  [[nodiscard]] bool peer_has_ended() const noexcept;
  [[nodiscard]] std::byte* page(std::uint32_t number) const noexcept {
    return desk_.pages.data() + (std::size_t{number} << kPageShift);
  }

  const Fd socket_;
  LaneDesk& desk_;
  Dock* const dock_;
  std::array<Asked, LaneDesk::kRequests> flight_;  // those from done_ up to asked_ are the receiving side's
  std::atomic<std::uint32_t> asked_{0};            // requests, ever; written under send_mutex_
  std::atomic<std::uint32_t> done_{0};             // requests, ever; written under receive_mutex_
  std::atomic<std::uint32_t> pages_done_{0};       // pages, ever; written under receive_mutex_
  std::uint32_t pages_taken_ = 0;                  // pages, ever; guarded by send_mutex_
};

}  // namespace comex
