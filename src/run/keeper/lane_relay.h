// Lanes to a node that only the keeper can reach: over RDMA ("RDMA and programs" in docs/design-notes.md). The process
// has one end of a socket and speaks the protocol of lanes there, as with a node; a thread of the keeper moves the
// pages over the pool's link.
//
// A lane belongs to one link. When the pool has replaced that, the lane ends: so after a session was resumed, nothing
// that was sent on older lanes has an effect ("Coming back" in docs/design-notes.md). A lane that the keeper ends (see
// keeper_lanes.h) is closed when everything that was sent on it has been moved.
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

namespace comex {

class LaneRelay {
 public:
  // REQUIRES: the pool outlives this.
  explicit LaneRelay(Pool& pool) : pool_(pool) {}
  // Ends all lanes, when what is being moved has been.
  ~LaneRelay();
  LaneRelay(const LaneRelay&) = delete;
  LaneRelay& operator=(const LaneRelay&) = delete;

  // The process's end of a new lane. `link`: Link::number().
  Expected<Fd> open(NodeId node, std::uint64_t link);

 private:
  struct Lane {
    Fd socket;
    NodeId node;
    std::uint64_t link = 0;
    std::atomic<bool> over{false};
    std::thread thread;
  };
  void serve(Lane& lane);
  bool serve_one(Lane& lane, std::span<std::byte> pages);
  void bury_dead();

  Pool& pool_;
  std::mutex mutex_;       // guards lanes_
  std::list<Lane> lanes_;  // those that are over are taken out when the next is opened
};

}  // namespace comex
