// One memory node as this client sees it. Member is what all threads share: the way in to its link, the extents at
// hand, the frames to give back, its state. Whatever takes time (connecting, beats, grants, returns) is done by the
// member's Keeper, one thread each: see pool/keeper.h.
//
//                     connected                 beat too slow, or link broken
//   connecting ------------------------> up ---------------------------------> aside
//       |                                ^ ^                                   |  |
//       | failed                         | | resumed, or beat in time again    |  | fenced, or silent past the lease
//       +--> aside (no session yet)      | +-----------------------------------+  v
//                                        +---------------------------------------- lost
//                                           a new session, under a new id
//
// "aside": gets no new pages. Those it has can be read while its link stands (it was only slow), or come back when the
// link does. "lost": its frames are gone; the loss has been reported, once.
//
// Thread safety: all functions from any thread. The Keeper alone changes state, link and session.
// Fault path: everything down to wait_until_decided. They take only mutexes that are held for a few instructions
// (ExtentList, Returns), so a thread must not be interrupted by a handler that faults while in here: the fault handler
// runs with asynchronous signals blocked.
//
// Invariants:
//  1. id() names the current session. What belongs to an older session is refused everywhere: link (LinkGate), extents
//     (ExtentList), returns (Returns). Nothing of one session leaks into the next.
//  2. A node that failed a transfer gives out no frames until its keeper has heard from it again (suspect_).
//  3. A session that is resumed keeps its id, its extents at hand and its frames.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fabric/url.h"
#include "pool/event_count.h"
#include "pool/extent_list.h"
#include "pool/link_gate.h"
#include "pool/location.h"
#include "pool/refill.h"
#include "pool/returns.h"

namespace comex {

struct MemberConfig {
  RefillConfig refill;
  ReturnsConfig returns;
  std::uint32_t standby_frames =
      128;  // kept at the stand-by node, so that a batch can move there at once: 2 to 4 of them
  std::uint32_t extent_capacity = 1024;  // extents at hand: twice the largest T in extents of 2^7, and crumbs
  Millis backoff_first{100};             // a restart takes about this long
  Millis backoff_longest{10'000};        // a node that was away for hours is found again within seconds
  Millis slow_beat{500};                 // a beat that takes longer: the node is in trouble, new pages go elsewhere
  Millis hear{1'000};                    // how often at least a node is heard of: it may want its memory back,
  Millis hear_asked{200};                // ... and how often while it does
  Millis ask_again_first{50};            // after a "no", when no node has better
  Millis ask_again_longest{2'000};
};

enum class MemberState : std::uint8_t { connecting, up, aside, lost };
std::string_view to_string(MemberState state);

// What the pool wants of a node. See "Who is refilled" in pool/pool.h.
enum class Role : std::uint8_t {
  idle,     // keep nothing at hand
  standby,  // keep a few
  active,   // keep T
  scraps,   // every node has said no: take extents of any size
};
std::string_view to_string(Role role);

// Frames of a session that are gone. Some may have been taken for pages that are still in staging, which will go
// elsewhere: whether anything was lost for good, the page table knows.
struct Loss {
  NodeId node;  // the id that is dead now
  std::string url;
  std::string reason;        // one line
  std::uint64_t frames = 0;  // in use there
};

struct MemberStatus {
  NodeId node;
  std::string url;
  MemberState state = MemberState::connecting;
  Role role = Role::idle;
  NodeInfo info;  // zero until first connected
  wire::NodeLoad load;
  std::vector<std::uint32_t> asked;  // slabs that the node would have us move out of
  Nanos round_trip{0};               // of control calls, smoothed
  std::uint32_t threshold = 0;
  std::uint32_t at_hand = 0;
  std::uint64_t in_use = 0;    // frames taken and not given back
  std::uint64_t stranded = 0;  // frames that return only when the session ends
  std::uint64_t losses = 0;    // sessions lost with frames in use
  std::string last_error;
};

class Member {
 public:
  Member(NodeId id, Url url, const MemberConfig& config);

  // --- fault path ---
  // Frames for new pages, without a call to the node. Wakes the keeper when the list falls below the threshold.
  std::optional<Run> take(std::uint32_t want) noexcept;
  // Frames that were taken and never written: they are at hand again.
  void put_back(const Run& run) noexcept;
  // REQUIRES: no transfer of these frames is under way or will be.
  void give_back(const Run& run) noexcept;

  // Completes at once with Errc::disconnected if there is no link now, Errc::fenced if there never will be again.
  void submit(NodeId node, Transfer& transfer) noexcept;
  void poll(NodeId node) noexcept;
  // REQUIRES: submitted to this node.
  Errc wait(NodeId node, Transfer& transfer) noexcept;
  Errc move(NodeId node, Transfer& transfer) noexcept;
  // After a disconnection: ok when the node is back with its frames, fenced when they are lost, or timeout.
  Errc wait_until_decided(NodeId node, const Deadline& deadline) noexcept;

  [[nodiscard]] NodeId id() const noexcept { return NodeId{id_.load(std::memory_order_acquire)}; }
  [[nodiscard]] MemberState state() const noexcept { return state_.load(std::memory_order_acquire); }
  // Up and not under suspicion: new pages may go there.
  [[nodiscard]] bool usable() const noexcept;
  // Said no to extents of the usual size, and nothing indicates that it would not again.
  [[nodiscard]] bool refusing() const noexcept { return refusing_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint32_t at_hand() const noexcept { return extents_.frames(); }
  // Whether both are one memory node under two URLs: their sessions are with the same process.
  [[nodiscard]] bool is_same_node(const Member& other) const noexcept {
    const std::uint64_t boot_id = boot_id_.load(std::memory_order_relaxed);
    return boot_id != 0 && boot_id == other.boot_id_.load(std::memory_order_relaxed);
  }

  // --- elsewhere ---
  [[nodiscard]] Role role() const noexcept { return role_.load(std::memory_order_relaxed); }
  void set_role(Role role) noexcept;
  [[nodiscard]] wire::NodeLoad load() const;
  [[nodiscard]] MemberStatus status() const;
  [[nodiscard]] const Url& url() const { return url_; }
  void ring() noexcept { alarm_.advance(); }
  [[nodiscard]] LinkGate::Pass enter(NodeId node) noexcept { return gate_.enter(node); }

 private:
  friend class Keeper;

  void report(Errc result) noexcept;
  [[nodiscard]] Errc absent(NodeId node) const noexcept;
  void set_state(MemberState state) noexcept;
  // Forgets the session's extents and returns. Returns how many frames were in use.
  std::uint64_t end_session() noexcept;

  const MemberConfig config_;
  const Url url_;
  LinkGate gate_;
  ExtentList extents_;
  Returns returns_;
  RateMeter meter_;
  EventCount alarm_;    // wakes the keeper
  EventCount decided_;  // the state changed
  std::atomic<std::uint16_t> id_;
  std::atomic<std::uint64_t> boot_id_{0};  // Session::boot_id, set before it is up; 0: no session
  std::atomic<MemberState> state_{MemberState::connecting};
  std::atomic<Role> role_{Role::idle};
  std::atomic<bool> suspect_{false};
  std::atomic<bool> refusing_{false};
  std::atomic<std::uint32_t> threshold_{0};

  mutable std::mutex details_mutex_;  // guards details_; not taken on the fault path
  struct {
    NodeInfo info;
    wire::NodeLoad load;
    std::vector<std::uint32_t> asked;
    Nanos round_trip{0};
    std::uint64_t losses = 0;
    std::string last_error;
  } details_;
};

}  // namespace comex
