// Memory that the two ends of a lane between processes share: the one asks there for pages to be moved, the other
// answers there when they have been. See desk_lane.h and, for the other end, run/keeper/lane_relay.h.
//
// Requests and answers are numbered; both rings have kRequests places, and answers come in the order of the requests.
// Pages are moved to and from the asking process' dock (dock.h), if they are there; others by way of the desk's own,
// which are taken in a ring, too, by the one that asks, those of a request in one piece. A socket goes with the desk:
// a byte is sent to the other end when that sleeps, and the end of the stream is the end of the lane. The dock's file
// comes with the first byte, if there is a dock.
//
// Whoever is about to sleep says so and looks once more; whoever has put something there looks afterwards whether the
// other sleeps. All four are sequentially consistent, so either the one sees it or the other wakes it.
//
// Part of the code inside programs. The end that answers does not trust what it reads here.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/units.h"
#include "fabric/transfer.h"
#include "wire/message.h"

namespace comex {

struct LaneDesk {
  static constexpr std::uint32_t kRequests = 32;
  static constexpr std::uint32_t kPages = 2 * wire::kMaxTransferPages;  // so that the largest fits whatever the rest
  static constexpr std::uint32_t kOnDock = 1U << 31;                    // with a page's number: not of the desk's own

  struct Request {
    Direction direction;
    Priority priority;
    std::uint16_t segments;
    std::array<Extent, wire::kMaxSegments> extents;
    std::array<std::uint32_t, wire::kMaxSegments> pages;  // the first of each
  };

  // Written by the end that asks.
  alignas(64) std::atomic<std::uint32_t> asked;  // requests, ever
  std::atomic<std::uint32_t> asker_sleeps;
  std::array<Request, kRequests> requests;

  // Written by the end that answers.
  alignas(64) std::atomic<std::uint32_t> answered;  // requests, ever
  std::atomic<std::uint32_t> answerer_sleeps;
  std::atomic<std::uint32_t> docked;             // it has the dock: pages there can be named
  std::atomic<std::uint32_t> over;               // nothing is under way, and nothing will be answered any more
  std::array<std::uint16_t, kRequests> results;  // Errc

  alignas(kPageSize) std::array<std::byte, kPages * kPageSize> pages;
};

static_assert((LaneDesk::kPages & (LaneDesk::kPages - 1)) == 0, "the count of pages ever taken wraps around");
static_assert(sizeof(std::atomic<std::uint32_t>) == 4 && std::atomic<std::uint32_t>::is_always_lock_free);

}  // namespace comex
