// The keeper of a program under `comex run`: owns the use of one pool for all its processes, so that leases are kept,
// frames refilled and losses noticed whatever those processes do, and so that none of them can leave frames behind.
//
//   process (run/outpost/outpost.h)                    keeper                                        memory nodes
//   want, give_back, heir, lanes  ---------->  loop: FrameBook (who holds what)
//   grant, node, slab, back ...  <----------         Pool (pool/pool.h)  <------------------->  control
//   pages ----------------------------------------------------------------------------------->  shm slabs, tcp lanes
//
// The keeper is never on the way of a page: it hands out frames ahead of need, and the means to reach them: descriptors
// of slabs and of the fence page (shm), connections of its session (tcp). tls:// nodes cannot be used: the state of a
// TLS connection cannot be handed over.
//
// Threads: one loop, which does everything here; one that opens lanes, which takes as long as connecting does
// (run/keeper/keeper_lanes.h). Thread safety: all public functions from any thread. Nothing here is for the fault path.
//
// Invariants:
//  1. A frame has no two holders but a process and its heirs.
//  2. The frames of a process are free when it has given them back, or when neither an instruction of it can run any
//     more (run/lifeline.h) nor a write that it sent can still land (run/keeper/keeper_lanes.h). See "Who may touch a
//     frame of a program" in docs/design-notes.md.
//  3. A process that breaks the protocol, or dies, changes nothing for another.
//  4. A process is told of a node before a slab of it, of a slab before a run in it, and of no run before it has lanes.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/fd.h"
#include "pool/pool.h"
#include "run/keeper/frame_book.h"
#include "run/keeper/keeper_lanes.h"
#include "run/keeper/keeper_process.h"
#include "run/packet.h"

namespace comex {

struct KeeperConfig {
  unsigned lanes = 2;            // tcp: connections per process and node; a node takes 256 of one client
  std::size_t processes = 4096;  // at a time
  std::uint32_t turn = 1024;     // frames one process gets before the next has its turn
  Millis look_again{20};         // while somebody waits for frames: how often to look, should nobody wake the loop
  Millis lanes_again{200};       // after lanes could not be opened
  Millis lane_end_grace{5'000};  // for a node to close the lanes of a dead process; then the link is resumed
  // Called on the loop when the last process is gone and has left nothing behind. May be empty.
  std::function<void()> on_last_gone;
};

struct KeeperStatus {
  std::size_t processes = 0;  // connected
  std::size_t leaving = 0;    // gone, their frames not yet free
  std::uint64_t frames = 0;   // held, counted once per holder
  std::size_t refused = 0;    // processes that want frames and were told that there are none
};

class KeeperServer {
 public:
  // Errc::unsupported if a node is on tls://.
  static Expected<void> check(const PoolConfig& pool);
  // REQUIRES: the pool outlives this, was opened with LinkOptions::exportable, and nobody else takes frames from it.
  // As check(). Raises the limit of open files as far as it goes.
  static Expected<std::unique_ptr<KeeperServer>> start(Pool& pool, KeeperConfig config = {});
  // Tells every process that it is closing, and stops. Frames that are held stay with the pool until that closes.
  ~KeeperServer();
  KeeperServer(const KeeperServer&) = delete;
  KeeperServer& operator=(const KeeperServer&) = delete;

  // The keeper's end of a connected SEQPACKET socket, whose other end a process has or will inherit.
  void adopt(Fd socket);
  // Processes that come in here must be of this user, or root.
  void listen(Fd listener);

  [[nodiscard]] KeeperStatus status() const;

 private:
  using Process = KeptProcess;
  using Processes = std::map<std::uint64_t, std::unique_ptr<Process>>;
  // A session with a memory node.
  struct Node {
    NodeId id;
    Url url;
    NodeInfo info;
    Session session;
    std::uint64_t link = 0;
    bool standing = false;
    [[nodiscard]] bool shm() const { return url.scheme == Url::Scheme::unix_socket; }
  };

  KeeperServer(Pool& pool, KeeperConfig config);
  void run();
  [[nodiscard]] int pause() const;
  void wake() noexcept;

  // --- keeper_server.cpp: connections ---
  void take_in_new();
  void accept_from(int listener);
  Process* add(Fd socket);  // null if there are too many
  void watch(int fd, std::uint32_t kind, std::uint64_t number);
  void watch_lane(int lane);
  void watch_room(Process& process);
  void on_event(std::uint64_t tag);
  void receive(Process& process);
  bool serve(Process& process, std::span<const std::byte> message, const Received& from);
  bool greet(Process& process, const keeper_wire::Hello& hello, const Received& from);
  bool make_heir(Process& process);
  // Its connection is of no use. Its frames are kept until leave() has seen the end of it.
  void end(Process& process);
  void broke_rules(Process& process, const char* how);

  // --- keeper_frames.cpp: who gets and returns what ---
  void serve_wants();
  bool grant_some(Process& process);
  // What a process must know before it is granted a run. `parked`: the run has to wait for lanes.
  enum class Ready { yes, parked, no };
  Ready prepare(Process& process, Node& node, const Run& run);
  bool tell_node(Process& process, Node& node);
  Ready tell_slab(Process& process, Node& node, KeptNode& kept, const Run& run);
  bool take_back(Process& process, std::span<const std::byte> message);
  void settle_returns(Process& process, KeptNode& kept);
  void grant_parked(Process& process, KeptNode& kept);
  void put_back_parked(Process& process, KeptNode& kept);
  void inherit(const Process& parent, Process& heir);
  void publish();

  // --- keeper_leave.cpp: processes that are gone ---
  void leave_all();
  // True when nothing of it is left.
  bool leave(Process& process);
  bool lanes_ended(KeptNode& kept, NodeId id, bool first, bool late);

  // --- keeper_nodes.cpp: nodes and lanes ---
  void look_at_pool();
  void look_at_node(const MemberStatus& member);
  void link_changed(Node& node);
  void link_broke(Node& node);
  void lose(const Node& node);
  void forget_session(const Node& node);
  void open_lanes(Process& process, const Node& node, KeptNode& kept);
  void retry_lanes();
  void take_lanes();
  void take_lanes(LaneOpener::Result result);
  bool lanes_broke(Process& process, NodeId id);
  void renew_for(Process& process, const KeptNode& kept, NodeId id);

  Pool& pool_;
  const KeeperConfig config_;
  FrameBook book_;
  FrameBook::Free free_;  // to the pool
  std::map<std::uint16_t, Node> nodes_;
  std::set<std::uint16_t> lost_;  // ids that are dead; processes may still speak of them
  Processes processes_;
  std::uint64_t last_number_ = 0;
  std::uint64_t turn_ = 0;  // the process whose turn it was last
  std::vector<Fd> listeners_;
  std::vector<std::byte> buffer_;
  Fd epoll_;
  Fd wake_;
  std::unique_ptr<LaneOpener> opener_;

  std::atomic<bool> stopping_{false};
  std::atomic<bool> pool_changed_{true};
  Clock::time_point looked_at_{};  // when look_at_pool() was last called
  mutable std::mutex mutex_;       // guards all below
  std::vector<Fd> adopted_;
  std::vector<Fd> to_listen_;
  KeeperStatus status_;

  std::thread thread_;  // last: uses all of the above
};

}  // namespace comex
