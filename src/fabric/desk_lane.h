// A lane to another process of this host that moves the pages for us, through memory that both have (lane_desk.h).
//
//   queue_  -->  asked (on the desk, up to 32)  -->  answered, in that order
//
// Pages are copied between the callers' memory and the desk, once. They are not moved to and from the callers' memory
// itself: what the other process, or a device, may still write when a transfer has been given up must be nobody's.
//
// How threads wait is in lane.h. Locks, in order: receive_mutex_, send_mutex_.
// Fault path: all functions. Needs neither OpenSSL nor fmt.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>

#include "base/fd.h"
#include "fabric/lane.h"
#include "fabric/lane_desk.h"

namespace comex {

class DeskLane final : public Lane {
 public:
  // The desk in that file, mapped where no forked child has it. Null: there is no memory.
  static LaneDesk* map(int memory) noexcept;

  // Unmaps the desk when it goes. `broken`: see Lane.
  DeskLane(Fd socket, LaneDesk& desk, std::atomic<Errc>& broken, Nanos max_spin);
  ~DeskLane() override;

  void fail_all(Errc why) noexcept override;
  void shut() noexcept override;
  [[nodiscard]] int fd() const noexcept { return socket_.get(); }

 private:
  struct Asked {
    Transfer* transfer = nullptr;
    std::uint32_t first_page = 0;
    std::uint32_t pages = 0;  // with those that were left out to have it in one piece
  };

  Errc send_some() noexcept override;
  Errc receive_some(bool* moved) noexcept override;
  bool sleep(const Deadline& deadline, Errc* error) noexcept override;
  bool help(Errc*) noexcept override { return false; }
  Transfer* oldest() noexcept override;

  // REQUIRES, of both: send_mutex_. False, or nothing: there is no room now.
  bool ask(Transfer& transfer) noexcept;
  std::optional<Asked> take_pages(Transfer& transfer) noexcept;
  [[nodiscard]] std::byte* page(std::uint32_t number) const noexcept {
    return desk_.pages.data() + (std::size_t{number} << kPageShift);
  }

  const Fd socket_;
  LaneDesk& desk_;
  std::array<Asked, LaneDesk::kRequests> flight_;  // those from done_ up to asked_ are the receiving side's
  std::atomic<std::uint32_t> asked_{0};            // requests, ever; written under send_mutex_
  std::atomic<std::uint32_t> done_{0};             // requests, ever; written under receive_mutex_
  std::atomic<std::uint32_t> pages_done_{0};       // pages, ever; written under receive_mutex_
  std::uint32_t pages_taken_ = 0;                  // pages, ever; guarded by send_mutex_
};

}  // namespace comex
