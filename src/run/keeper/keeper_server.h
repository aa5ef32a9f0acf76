// The keeper of a program under `comex run`: owns the use of one pool for all its processes, so that leases are kept,
// frames refilled and losses noticed whatever those processes do, and so that none of them can leave frames behind.
//
//   process (run/outpost/outpost.h)                    keeper                                        memory nodes
//   want, give_back, heir, lanes  ---------->  loop: FrameBook (who holds what), ChunkStore (where that is)
//   grant, node, slab, back ...  <----------         Pool (pool/pool.h)  <------------------->  control
//   pages ----------------------------------------------------------------------------------->  shm slabs, tcp lanes
//
// The keeper is never on the way of a page: it hands out frames ahead of need, and the means to reach them: descriptors
// of slabs and of the fence page (shm), connections of its session (tcp). tls:// nodes cannot be used: the state of a
// TLS connection cannot be handed over.
//
// Threads: one loop, which does everything here; for each node one that opens lanes, while some are wanted, which takes
// as long as connecting does (run/keeper/keeper_lanes.h); one that copies chunks (run/keeper/chunk_copier.h); with a
// backup, one that waits for the disk (run/backup/backup_worker.h). Thread safety: all public functions from any
// thread. Nothing here is for the fault path.
//
// Invariants:
//  1. A home has no two holders but a process and its heirs.
//  2. The homes of a process are free when it has given them back, or when no instruction of it can run any more
//     (run/lifeline.h); the frames behind them, node by node, when no write that it sent there can still land
//     (run/keeper/keeper_lanes.h). See "Who may touch a frame of a program" in docs/design-notes.md.
//  3. A process that breaks the protocol, or dies, changes nothing for another.
//  4. A process is told of a node before a slab of it, of a slab before a run in it, and of no run before it has lanes
//     to all its places.
#pragma once

#include <atomic>
#include <compare>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <unordered_set>
#include <vector>

#include "base/fd.h"
#include "pool/mend_queue.h"
#include "pool/pool.h"
#include "run/backup/backup.h"
#include "run/keeper/chunk_copier.h"
#include "run/keeper/chunk_store.h"
#include "run/keeper/frame_book.h"
#include "run/keeper/keeper_lanes.h"
#include "run/keeper/keeper_process.h"
#include "run/packet.h"

namespace comex {

struct KeeperConfig {
  bool relay = false;            // tcp: pages go through the keeper, as over rdma they always do. For tests
  unsigned lanes = 2;            // tcp: connections per process and node; a node takes 256 of one client
  std::size_t processes = 4096;  // at a time
  std::uint32_t turn = 1024;     // frames one process gets before the next has its turn
  Millis look_again{20};         // while somebody waits for frames: how often to look, should nobody wake the loop
  Millis lanes_again{200};       // after lanes could not be opened
  Code code;                     // how pages are coded; then the pool has as many `copies` as it has nodes
  std::uint64_t mend_rate = kMendRate;  // bytes in a second: how fast lost copies are made again
  Millis lane_end_grace{5'000};         // for a node to close the lanes of a dead process; then the link is resumed
  bool straight = true;                 // nodes copy from each other where they can
  StraightMover::Config pulls;          // ... and how long the keeper waits for them
  BackupConfig backup;
  // Whether a process of another user belongs to the program all the same: it gave up its rights after it had begun.
  // Called on the loop. Empty: there are none.
  std::function<bool(pid_t)> is_known;
  // Called on the loop when the last process is gone and has left nothing behind, and status() says so. May be empty.
  std::function<void()> on_last_gone;
};

struct KeeperStatus {
  std::size_t processes = 0;   // connected
  std::size_t leaving = 0;     // gone, their frames not yet free
  std::uint64_t frames = 0;    // held, counted once per holder
  std::size_t refused = 0;     // processes that want frames and were told that there are none
  std::uint64_t used = 0;      // held, each counted once
  std::uint64_t free = 0;      // held by nobody
  std::uint64_t dead = 0;      // held by nobody, and of use to nobody, for their columns' sake
  std::uint64_t thin = 0;      // frames, about, that have fewer copies than they should
  std::uint64_t mended = 0;    // copies of frames that were made again, ever
  std::uint64_t to_move = 0;   // frames, about, that nodes want to have back
  std::uint64_t moved = 0;     // frames that were moved from one node to another, ever
  std::uint64_t straight = 0;  // frames of both that did not come through the keeper
  bool stuck = false;          // some of the former have no other place now
  BackupStatus backup;
  std::uint64_t on_disk = 0;     // frames that are nowhere but on the disk
  std::uint64_t moved_back = 0;  // frames that were, and got a node, ever
};

class KeeperServer {
 public:
  // Errc::unsupported if a node is on tls://.
  static Expected<void> check(const PoolConfig& pool);
  // Each page in as many copies as the pool is for, or coded across as many nodes. REQUIRES: the pool outlives this,
  // was opened with LinkOptions::exportable, and nobody else takes frames from it. As check(). Raises the limit of open
  // files as far as it goes.
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
    std::vector<std::uint32_t> asked;  // slabs that it wants empty, sorted
    // Places here, by their first frames, to which somebody who has let go of them may have sent what has not landed
    // yet: nobody gets them before the link is another.
    std::unordered_set<std::uint32_t> unsettled;
    std::vector<Run> withheld;  // those of them that no chunk has any more
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
  std::optional<Run> next_run(std::uint32_t want);
  bool make_chunks(std::uint32_t want);
  // Whether a node can be used now. False of a node that is lost.
  [[nodiscard]] bool stands(NodeId id) const;
  // What a process must know before it is granted homes of a chunk. `parked`: they have to wait for lanes.
  enum class Ready { yes, parked, no };
  Ready prepare(Process& process, ChunkNo chunk);
  Ready prepare(Process& process, Node& node, FrameNo frame);
  bool tell_node(Process& process, Node& node);
  Ready tell_slab(Process& process, Node& node, KeptNode& kept, FrameNo frame);
  bool take_back(Process& process, std::span<const std::byte> message);
  // The process lets go of homes of the chunk while its lanes to this node are over.
  void unsettle(ChunkNo chunk, Node& node);
  void unsettle(const Run& place, std::uint64_t link);
  [[nodiscard]] bool is_settled(const Location& place) const;
  void give_back_place(const Run& place);
  void settle(Node& node);
  void settle_parked(Process& process);
  void inherit(const Process& parent, Process& heir);
  void mind_dead_homes();
  void publish();

  // --- keeper_leave.cpp: processes that are gone ---
  // True when that was the last of all processes.
  bool leave_all();
  // True when nothing of it is left.
  bool leave(Process& process);
  bool lanes_ended(KeptNode& kept, bool first, bool late, bool* unclean);
  void give_up_lanes(const Process& process, const KeptNode& kept, Node& node);

  // --- keeper_nodes.cpp: nodes and lanes ---
  void look_at_pool();
  void look_at_node(const MemberStatus& member);
  void link_changed(Node& node);
  void link_broke(Node& node);
  void lose(const Node& node);
  void forget_session(const Node& node);
  [[nodiscard]] bool is_relayed(const Url& url) const;
  [[nodiscard]] bool relays() const;
  void open_lanes(Process& process, const Node& node, KeptNode& kept);
  void retry_lanes();
  void take_lanes();
  void take_lanes(LaneOpener::Result result);
  bool lanes_broke(Process& process, NodeId id);

  struct Mending;
  // --- keeper_backup.cpp: the disk ---
  std::optional<Run> next_run_on_disk(std::uint32_t want);
  void back_up();
  void back_up(ChunkNo chunk);
  void await_backup(ChunkNo chunk, Mending& job);
  [[nodiscard]] bool wants_backup(ChunkNo chunk) const;
  [[nodiscard]] bool may_leave_for_disk(ChunkNo chunk, std::uint32_t others) const;
  std::optional<Run> disk_place(ChunkNo chunk);
  [[nodiscard]] bool needs_no_backup(ChunkNo chunk) const;
  void drop_backup(ChunkNo chunk);
  void move_back();
  void rescue();
  bool tell_disk(Process& process);

  // --- keeper_mend.cpp: copies that are made again ---
  // A chunk that is to get one place more, or another for one that it has.
  struct Mending {
    Run to;
    std::uint32_t row = 0;           // where pages are coded: which of its places that is to be
    std::optional<Run> from;         // which it is to lose,
    std::uint32_t others = 0;        // ... if it still has so many others then
    std::uint32_t round = 0;         // processes that have answered this have no write to it under way
    std::uint64_t last_process = 0;  // those with higher numbers came after the seal
    Clock::time_point until{};       // ... and if they have not by then, it waits for another time
    bool copying = false;
    bool copied = false;  // ... and to be told of
  };
  void mend();
  void seal_some();
  // Frames for a place: so many, on another node than these.
  struct Wanted {
    std::vector<NodeId> beside;
    std::uint32_t count = 0;
    auto operator<=>(const Wanted&) const = default;
  };
  void seal_thin();
  void look_for_room();
  void mend_later(ChunkNo chunk);
  void seal_for(ChunkNo chunk, const Run& to, std::optional<Run> from, std::uint32_t others = 0);
  void send_round();
  void begin_copy(ChunkNo chunk, Mending& job);
  [[nodiscard]] std::vector<ChunkCopier::Source> find_sources(ChunkNo chunk, const Mending& job) const;
  [[nodiscard]] static Wanted wanted_beside(const Places& places, std::uint32_t count);
  std::optional<Run> find_place(const Wanted& wanted);
  [[nodiscard]] bool needs_place(ChunkNo chunk) const;
  [[nodiscard]] bool nobody_writes(ChunkNo chunk, const Mending& job) const;
  [[nodiscard]] static bool is_silent(const Process& process);
  [[nodiscard]] bool waits_in_vain(ChunkNo chunk) const;
  void stop_mending(ChunkNo chunk, bool again);
  void copied(const ChunkCopier::Result& result);
  void put_to_use(ChunkNo chunk);
  bool tell_place(ChunkNo chunk, const Run& place, bool at_once);
  bool tell_since(Process& process, std::uint32_t since);
  void renew_for(Process& process, const KeptNode& kept, NodeId id);

  // --- keeper_move.cpp: places that are given up while they are in use ---
  // A place that a chunk had; it may still be read.
  struct Left {
    Run run;
    ChunkNo chunk;
    std::uint32_t round = 0;  // as in Mending
    std::uint64_t last_process = 0;
  };
  void hear_asked(Node& node, std::vector<std::uint32_t> slabs);
  [[nodiscard]] static bool is_asked(const Node& node, FrameNo frame);
  [[nodiscard]] std::optional<Run> asked_place(ChunkNo chunk) const;
  [[nodiscard]] Places other_places(ChunkNo chunk, const Run& than) const;
  void find_leaving();
  void seal_leaving();
  void leave_place(ChunkNo chunk, const Mending& job);
  [[nodiscard]] bool nobody_reads(const Left& left) const;
  void settle_left();

  Pool& pool_;
  const KeeperConfig config_;
  std::unique_ptr<ChunkStore> store_;
  FrameBook book_;             // of homes
  FrameBook::Free free_;       // to the store
  Errc refusal_ = Errc::ok;    // why there is no new chunk
  bool tidy_ = false;          // processes are to write pages elsewhere that are in mostly empty columns
  std::size_t first_row_ = 0;  // of coded chunks: which of their nodes has the first row of the next
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
  std::unique_ptr<Backup> backup_;                  // null: there is none
  std::unique_ptr<ChunkCopier> copier_;             // ends before the backup, whose file it uses
  MendQueue thin_;                                  // chunks that have fewer places than they should; some may be gone
  std::map<Wanted, std::vector<ChunkNo>> no_room_;  // ... and those for which no node had any when it was asked
  Clock::time_point look_for_room_at_{};            // when to ask again
  std::map<std::uint32_t, Mending> mending_;        // by chunk; all of them are sealed
  std::deque<ChunkNo> leaving_;                     // chunks with places that nodes want to have back; some may be gone
  std::vector<Left> left_;
  std::uint64_t moved_ = 0;
  std::uint64_t straight_ = 0;
  bool stuck_ = false;         // nothing of leaving_ has another place to go
  bool round_is_due_ = false;  // somebody waits for the round after this
  std::uint32_t seal_round_ = 0;
  std::uint32_t since_ = 0;  // of the last late place
  std::uint64_t mended_ = 0;
  std::uint64_t moved_back_ = 0;
  std::set<std::uint32_t> rescue_;    // chunks whose nodes are lost, and that have a copy on the disk
  std::uint32_t next_backup_ = 0;     // the chunk to look at next
  Clock::time_point back_up_at_{};    // when to begin with the first again
  Clock::time_point disk_used_at_{};  // when homes on the disk were handed out last
  Clock::time_point mend_at_{};

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
