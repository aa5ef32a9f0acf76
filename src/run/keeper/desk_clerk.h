// Serves one desk (fabric/lane_desk.h): moves what is asked for there over a link of the pool, and answers.
//
// Thread safety: one thread.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "base/spin.h"
#include "fabric/lane_desk.h"
#include "pool/pool.h"
#include "run/keeper/far_dock.h"

namespace comex {

class DeskClerk {
 public:
  // `link`: Link::number(). `socket` goes with the desk.
  DeskClerk(Pool& pool, FarDocks& docks, NodeId node, std::uint64_t link, LaneDesk& desk, int socket);
  // When nothing is under way any more, and the link has forgotten the desk.
  ~DeskClerk();
  DeskClerk(const DeskClerk&) = delete;
  DeskClerk& operator=(const DeskClerk&) = delete;

  // Until the link is another, or broken; or the stream of the socket has ended and all that was asked for is done; or
  // something makes no sense.
  void serve();

 private:
  struct Slot {
    Transfer transfer;
    std::array<Segment, wire::kMaxSegments> segments;
  };

  // False, of all: the lane is over.
  bool step();
  bool take_all();
  bool take(const LaneDesk::Request& asked, Slot& slot);
  // Where these pages are that the process has named; nullptr: nowhere.
  std::byte* find(std::uint32_t page, std::uint32_t count);
  bool answer_oldest();

  void wait_for_more();
  // What the socket has to say: that there is more, the dock, or that the stream has ended.
  void hear(int flags);
  // Completes it.
  void wait(Transfer& transfer);
  [[nodiscard]] bool stands();
  // The link, if it is still the one that the lane belongs to.
  template <typename Use>
  bool with_link(Use&& use) {
    const auto link = pool_.enter(node_);
    if (!link || link->number() != link_) return false;
    use(link);
    return true;
  }
  [[nodiscard]] Slot& slot(std::uint32_t number) { return slots_[number % LaneDesk::kRequests]; }

  Pool& pool_;
  FarDocks& docks_;
  const NodeId node_;
  const std::uint64_t link_;
  LaneDesk& desk_;
  const int socket_;
  std::shared_ptr<FarDock> dock_;
  SpinPolicy spin_;
  std::array<Slot, LaneDesk::kRequests> slots_;
  std::uint32_t taken_ = 0;     // requests, ever
  std::uint32_t answered_ = 0;  // requests, ever
  bool ended_ = false;          // the stream
};

}  // namespace comex
