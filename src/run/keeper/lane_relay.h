// Lanes to a node that only the keeper can reach: over RDMA ("RDMA and programs" in docs/design-notes.md). A process
// has a desk that it shares with the keeper (fabric/lane_desk.h), and a dock (fabric/dock.h); a thread of the keeper
// moves the pages over the pool's link, which knows their memory: a device takes them from there, and brings them
// there.
//
// A lane belongs to one link. When the pool has replaced that, the lane ends: so after a session was resumed, nothing
// that was asked for on older lanes has an effect ("Coming back" in docs/design-notes.md). A lane that the keeper ends
// (see keeper_lanes.h) is closed when everything that was asked for on it has been moved.
//
// Thread safety: all functions from any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <thread>

#include "base/expected.h"
#include "base/fd.h"
#include "pool/pool.h"
#include "run/keeper/far_dock.h"

namespace comex {

class LaneRelay {
 public:
  // The process's end of a lane: see DeskLane.
  struct End {
    Fd socket;
    Fd memory;  // of the desk
  };

  // REQUIRES: the pool outlives this.
  explicit LaneRelay(Pool& pool) : pool_(pool), docks_(pool) {}
  // Ends all lanes, when what is being moved has been.
  ~LaneRelay();
  LaneRelay(const LaneRelay&) = delete;
  LaneRelay& operator=(const LaneRelay&) = delete;

  // `link`: Link::number().
  Expected<End> open(NodeId node, std::uint64_t link);

 private:
  struct Lane {
    Fd socket;
    Fd memory;
    NodeId node;
    std::uint64_t link = 0;
    std::atomic<bool> over{false};
    std::thread thread;
  };
  void serve(Lane& lane);
  void bury_dead();

  Pool& pool_;
  FarDocks docks_;
  std::mutex mutex_;       // guards lanes_
  std::list<Lane> lanes_;  // those that are over are taken out when the next is opened
};

}  // namespace comex
