// The pool: every memory node this client uses, behind one face. Frames are taken without a call to a node, pages are
// moved, frames are given back; in the background the lists are refilled, leases kept and nodes found again.
//
//   pager, staging                        pool                                     memory nodes
//   take / give_back     --->  ExtentList, Returns   <--- Keeper (a thread each) --->  grant, give_back, beat
//   submit / wait / read --->  LinkGate  -------------- Link ----------------------->  pages
//
// Who is refilled. Keeping T frames at hand at every node would, with many nodes and many clients, lock away more
// memory than it saves time. So one node is active and kept at T: the preferred one, or what Placement says while that
// one is away or says no. One more stands by with a few frames, so that a batch can move there the moment the active
// one dies. The others keep none. When every node has said no to extents of the usual size, all are asked for scraps.
// Where pages have several copies there are as many active nodes, of different failure domains (Url::domain). A node
// that is named by two URLs counts once: it says so itself, when a session begins.
//
// Thread safety: all functions from any thread. The destructor REQUIRES that nobody is inside.
// Fault path: everything in the section so named. It calls no node but through the link's own fault-path functions,
// allocates nothing, and takes only mutexes that are held for a few instructions. It may set errno.
//
// Invariants:
//  1. A frame handed out by take() is held by this client at that node until it is given back, or the node is lost.
//  2. After a loss every use of the old id ends in Errc::fenced: wrong data can not come back. See pool/location.h.
//  3. A node that is dead or slow delays nothing that concerns another.
//
// Not for a forked child: its threads are gone. It leaves this object alone and opens a pool of its own.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "fabric/connect.h"
#include "fabric/link.h"
#include "pool/directory.h"
#include "pool/frames.h"
#include "pool/keeper.h"
#include "pool/location.h"
#include "pool/member.h"
#include "pool/placement.h"

namespace comex {

struct PoolConfig {
  std::vector<Url> nodes;
  LinkOptions link;  // link.nid is this host in hash(NID, PID)
  MemberConfig member;
  std::uint32_t pid = 0;         // the PID in hash(NID, PID); 0: this process
  std::uint32_t copies = 1;      // that a page is to have: as many nodes are refilled. See take_apart()
  bool anyway = false;           // opens after one connect time-out with no node up as well: they may come
  Millis open_grace{20};         // once enough are up, how long to wait for the others: a preferred one is worth it
  Millis shutdown_grace{1000};   // for calls under way and goodbyes; then links are cut
  std::uint16_t max_ids = 4096;  // sessions with frames in use, over the life of the pool (see pool/directory.h)
  // Both are called on threads of the pool and must not destroy it. While on_loss runs, the node it is about stays
  // away; nothing else waits.
  std::function<void(const Loss&)> on_loss;
  std::function<void(std::string_view)> on_notice;  // one line for people: a node set aside, a node back
};

class Pool final : public Frames {
 public:
  static constexpr std::size_t kMaxNodes = 1024;

  // Connects to all nodes at once, and waits until as many are up as there are copies, and then a moment for the
  // others, or until each has been tried: the connect time-out for one that is silent, as long as it takes for one that
  // answers. Succeeds if one is up. The error lists each node and why.
  static Expected<std::unique_ptr<Pool>> open(PoolConfig config, Connector connector = connect);
  // Says bye to every node and joins all threads, within the shutdown grace, or when an attempt to connect is over.
  ~Pool() override;
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  // --- fault path: see pool/frames.h ---
  // At the preferred node first, then wherever there are some.
  std::optional<Run> take(std::uint32_t want) noexcept override;
  void put_back(const Run& run) noexcept override;
  void give_back(const Run& run) noexcept override;
  [[nodiscard]] std::uint32_t at_hand() const noexcept override;
  // As take(), but at another node, and in another failure domain, than these sessions are with; at least so many.
  std::optional<Run> take_apart(std::uint32_t want, std::span<const NodeId> others, std::uint32_t least = 1) noexcept;
  // When that finds none: ok, some are on their way; no_memory, such nodes have said no; disconnected, none is up.
  [[nodiscard]] Errc apart(std::span<const NodeId> others) const noexcept;
  void submit(NodeId node, Transfer& transfer) noexcept override;
  void poll(NodeId node) noexcept override;
  Errc wait(NodeId node, Transfer& transfer) noexcept override;
  Errc wait_until_decided(NodeId node, const Deadline& deadline) noexcept override;
  // REQUIRES: count <= member.refill.min_threshold; more may never be.
  Errc wait_for_frames(std::uint32_t count, const Deadline& deadline) noexcept override;

  // --- elsewhere ---
  [[nodiscard]] std::vector<MemberStatus> status() const;  // in the order of the configuration
  // Nodes that are up now and can have a copy of a page each: they do not fail together, and none is another's double.
  [[nodiscard]] std::size_t count_apart() const;
  // Two URLs of one memory node, as far as it is known now.
  [[nodiscard]] std::optional<std::pair<Url, Url>> doubles() const;
  // The link of a session, for what it can export. Empty if there is none now. Not to be kept: see pool/link_gate.h.
  [[nodiscard]] LinkGate::Pass enter(NodeId node) noexcept;
  // Has the session resumed on new connections, if its link is still the one of that number: afterwards the node serves
  // nothing of the old ones. Does not wait for it.
  void renew_link(NodeId node, std::uint64_t link) noexcept;
  // Calls `changed`, on threads of the pool, whenever frames came or a node's state may have changed. It must be quick
  // and must not call the pool. Nothing: calls nobody any more, and nobody is being called when this returns.
  void watch(std::function<void()> changed);
  [[nodiscard]] const PoolConfig& config() const { return config_; }

 private:
  Pool(PoolConfig config, Connector connector);
  Expected<void> wait_until_open();
  Keeper::Hooks hooks_for(std::size_t member);
  [[nodiscard]] Error nobody_reached() const;
  void replan();
  void announce();
  std::optional<std::size_t> choose(std::span<const Placement::Candidate> nodes, std::size_t current);
  [[nodiscard]] Member* find(NodeId node) const noexcept;
  [[nodiscard]] bool is_apart(std::size_t member, std::size_t other) const noexcept;
  [[nodiscard]] bool is_apart(std::size_t member, std::span<const NodeId> others) const noexcept;

  static constexpr std::size_t kNobody = SIZE_MAX;

  const PoolConfig config_;
  Directory directory_;
  std::vector<std::unique_ptr<Member>> members_;
  EventCount arrivals_;     // frames came, or a node's state changed
  std::mutex watch_mutex_;  // guards watcher_; held while it is called
  std::function<void()> watcher_;

  // Until the first round of connecting is over nobody is chosen: the first node to answer is rarely the preferred one,
  // and would clear frames for us in vain.
  std::atomic<bool> opened_{false};
  std::mutex plan_mutex_;  // guards placement_ and the choice below; never held across a call to a node
  Placement placement_;
  // Read by take() as hints.
  std::array<std::atomic<std::size_t>, kMostPlaces> active_;  // the first `copies`
  std::atomic<std::size_t> standby_{kNobody};

  std::vector<std::unique_ptr<Keeper>> keepers_;  // last: their threads use all of the above
};

}  // namespace comex
