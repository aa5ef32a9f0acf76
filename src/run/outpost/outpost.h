// The frames of a process whose pool is kept by another (run/keeper/keeper_listen.h): what the pager and staging of a
// program under `comex run` work on. Pages are moved by the process itself, without waking anybody: by copying to and
// from slabs (shm), or over lanes of its own (tcp). The keeper is asked for frames ahead of need, and told of returns
// in batches.
//
//   fault path:   take, put_back      -> at_hand_ (runs the keeper has granted)
//                 give_back           -> returns_ (runs to tell the keeper of)
//                 place_of, places_of -> the map: where homes are (run/chunk_map.h)
//                 submit, poll, wait  -> OutpostNode (slabs or lanes); for the node kMade, several of them
//   now and then: tend                -> the keeper's messages in; returns, wants and broken lanes out
//
// Part of the code inside programs: no malloc, stdio, exceptions, thread-local variables, pthread locks or threads; all
// memory is from `own`, most of it at creation, that of a node when the keeper first names it (in tend). System calls
// go through libc's wrappers and may set errno. The files are listed in CMakeLists.txt (COMEX_IN_PROGRAMS).
//
// Thread safety: all functions from any thread, but those about fork, which say what they need.
// Fault path: all functions but create, destroy and those about fork. tend() makes system calls that do not wait; it
// must not be interrupted by a handler on the same thread that calls the outpost: handlers run with signals blocked.
//
// Locks, in order: tend_mutex_, frames_mutex_, returns_mutex_; the last two are held for a few instructions. tend()
// does nothing if another thread is at it.
//
// Invariants:
//  1. Frames at hand, returned or used here are this process's by the keeper's book; a frame that was given back is not
//     touched again by this object. What is at hand can be written now, in all its copies, or its node broke a moment
//     ago.
//  2. The keeper hears that lanes broke before it hears of the return of any frame that they may carry a write to.
//  3. After a node is lost, or the keeper gone, every transfer ends in Errc::fenced, for ever.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/fd.h"
#include "base/mutex.h"
#include "fabric/dock.h"
#include "pool/erasure.h"
#include "pool/frames.h"
#include "run/backup_map.h"
#include "run/chunk_map.h"
#include "run/outpost/ages.h"
#include "run/outpost/outpost_node.h"
#include "run/outpost/run_list.h"
#include "run/outpost/workrooms.h"
#include "run/packet.h"

namespace comex {

struct OutpostConfig {
  OutpostLinkConfig link;
  // Where there are copies, or a code: the transfer time-out at most, for the page can be had elsewhere.
  Millis failover{1'000};
  std::uint32_t first_stock = 128;  // frames to keep at hand, to begin with: many programs never need one
  std::uint32_t most_stock = 8192;  // the stock doubles, up to this, whenever it has run dry: 32 MiB
  Millis idle{2'000};               // after so long without a take it shrinks to the first again
  std::uint32_t at_hand_runs = 4096;
  std::uint32_t return_runs = 1U << 18;  // memory is touched as it is needed
  Millis welcome{10'000};                // for the keeper to answer at all
  // Zeroed memory, never given back; nullptr if there is none.
  std::byte* (*own)(void* context, std::size_t bytes) = nullptr;
  // A node is lost: called by tend(), once a node. May be null.
  void (*on_lost)(void* context, NodeId node, std::string_view name) = nullptr;
  // Whether the caller has other descriptors than the process: what the keeper sends is not for its table. May be null.
  bool (*apart)() = nullptr;
  void* context = nullptr;
  Record* record = nullptr;  // where to count; may be null
};

class Outpost final : public Frames {
 public:
  // `socket` is a connection to the keeper, which this owns from now on. Waits until the keeper has answered.
  // Errc::io: no memory of our own. REQUIRES: config.own.
  static Errc create(Fd socket, const OutpostConfig& config, Outpost** made) noexcept;
  // For tests; a program's outpost lives as long as the program. Its frames go back to the keeper.
  static void destroy(Outpost* outpost) noexcept;

  // Whether pages of some nodes are moved by the keeper. Then it is worth while to have a dock (fabric/dock.h) of so
  // many bytes, of which transfer_memory() is. Without one they are copied once more. REQUIRES: it has none, and nobody
  // else is inside.
  [[nodiscard]] bool relayed() const noexcept { return relayed_; }
  void open_dock(std::size_t bytes) noexcept;
  [[nodiscard]] const Dock& dock() const noexcept { return dock_; }

  // --- see pool/frames.h ---
  std::optional<Run> take(std::uint32_t want) noexcept override;
  void put_back(const Run& run) noexcept override;
  void give_back(const Run& run) noexcept override;
  [[nodiscard]] std::uint32_t at_hand() const noexcept override;
  [[nodiscard]] Location place_of(Location home) const noexcept override;
  [[nodiscard]] Location place_to_measure(Location home) noexcept override;
  void saw_read(NodeId node, std::uint32_t pages, Nanos took) noexcept override;
  [[nodiscard]] Places places_of(Location home) const noexcept override;
  [[nodiscard]] Places readable_places(Location home) const noexcept override;
  [[nodiscard]] std::uint32_t copies() const noexcept override { return copies_; }
  [[nodiscard]] Code code() const noexcept override { return code_; }
  [[nodiscard]] Places parity_of(Location home) const noexcept override;
  [[nodiscard]] bool tidies() const noexcept override { return tidy_.load(std::memory_order_relaxed); }
  [[nodiscard]] bool is_worn(Location home) const noexcept override;
  std::uint32_t begin_writes() noexcept override { return ages_.enter(); }
  void wrote(Location home) noexcept override;
  void end_writes(std::uint32_t ticket) noexcept override { ages_.leave(ticket); }
  std::uint32_t begin_reads() noexcept override { return ages_.enter(); }
  void end_reads(std::uint32_t ticket) noexcept override { ages_.leave(ticket); }
  Errc wait_until_readable(Location home, const Deadline& deadline) noexcept override;
  [[nodiscard]] bool is_near(NodeId node) const noexcept override;
  [[nodiscard]] bool keeps_waiting(NodeId node) const noexcept override {
    return node == keeper_wire::kDisk || Frames::keeps_waiting(node);
  }
  std::byte* transfer_memory(std::size_t bytes) noexcept override { return dock_.take(bytes); }
  void submit(NodeId node, Transfer& transfer) noexcept override;
  void poll(NodeId node) noexcept override;
  Errc wait(NodeId node, Transfer& transfer) noexcept override;
  Errc wait_until_decided(NodeId node, const Deadline& deadline) noexcept override;
  Errc wait_for_frames(std::uint32_t count, const Deadline& deadline) noexcept override;

  // Hears what the keeper has to say and tells it what it should know. To be called every few milliseconds while the
  // program is busy, by a thread that may, and now and then otherwise.
  void tend() noexcept { tend_for(0); }
  // Readable when the keeper has something to say.
  [[nodiscard]] int socket() const noexcept { return socket_.get(); }
  [[nodiscard]] bool keeper_gone() const noexcept { return gone_.load(std::memory_order_acquire); }
  // What the keeper said when it ended the connection; empty if it did not.
  [[nodiscard]] std::string_view farewell() const noexcept { return farewell_.view(); }
  // Counts there from now on. REQUIRES: nobody else is inside, as after a fork.
  void count_in(Record& record) noexcept;
  // Its URL; empty if there is no such node.
  [[nodiscard]] std::string_view name_of(NodeId node) const noexcept;
  // Frames that will be the keeper's again only when this process ends: there were too many to remember.
  [[nodiscard]] std::uint64_t stranded() const noexcept { return stranded_.load(std::memory_order_relaxed); }

  // --- fork ---
  // Before: makes the keeper take the child to be for a holder of everything that this process holds. On ok every lock
  // is held until the fork is over; other threads' transfers go on. Frames that another thread has taken and not yet
  // put where the child looks for them are the child's until its end: empty staging first.
  Errc before_fork(const Deadline& deadline) noexcept;
  // REQUIRES, of both: the same thread, before_fork() returned ok. Also when the fork failed.
  void after_fork_in_parent() noexcept;
  // Where the task that forks has other descriptors than the process: what before_fork() got goes from one table, by
  // one end of a SEQPACKET socket, to the other. REQUIRES: before_fork() returned ok, and these are called in turn.
  Errc send_heir(int socket) noexcept;
  Errc take_heir(int socket) noexcept;
  // The child has the same outpost, with nothing at hand, and tcp nodes away until the keeper has sent lanes. What
  // parent and child both hold must be written by neither. What was in transfer_memory() is zeros. `docked`: whether it
  // may have a dock, if its parent has. An error: the child has no memory to speak of any more.
  Errc after_fork_in_child(bool docked = true) noexcept;

 private:
  Outpost(Fd socket, const OutpostConfig& config, Run* at_hand, Run* returns, Run* sending, std::byte* buffer,
          std::atomic<OutpostNode*>* nodes);
  ~Outpost() override;

  [[nodiscard]] OutpostNode* find(NodeId node) const noexcept;
  // Calls f(OutpostNode&) for each. REQUIRES: tend_mutex_, or nobody else is inside.
  template <typename F>
  void for_each_node(F&& f) const noexcept {
    const auto call = [&](NodeId id) {
      if (OutpostNode* const node = nodes_[id.value].load(std::memory_order_relaxed)) f(*node);
    };
    for (std::uint16_t id = 0; id < ids_; ++id) call(NodeId{id});
    call(keeper_wire::kDisk);
  }
  [[nodiscard]] const ChunkEntry& entry_of(FrameNo home) const noexcept;
  // Whether this process knows the way to a place of the chunk, and whether it can be used now.
  [[nodiscard]] bool has_heard_of(const ChunkEntry& entry, std::uint64_t place) const noexcept;
  [[nodiscard]] bool usable(const ChunkEntry& entry, std::uint64_t place) const noexcept;
  // ... and, of a copy on the disk, whether the page is there.
  [[nodiscard]] bool readable(const ChunkEntry& entry, std::uint64_t place, FrameNo home) const noexcept;
  [[nodiscard]] bool writable(const ChunkEntry& entry, std::uint64_t place) const noexcept;
  using PlaceWords = std::array<std::uint64_t, kMostPlaces>;
  [[nodiscard]] static PlaceWords words_of(const ChunkEntry& entry) noexcept;
  [[nodiscard]] Errc state_of(Location home) const noexcept;
  [[nodiscard]] Errc state_of(const ChunkEntry& entry, const PlaceWords& words, FrameNo home) const noexcept;
  // Of the way to one place.
  [[nodiscard]] Errc state_of(const ChunkEntry& entry, std::uint64_t place) const noexcept;
  // --- outpost_code.cpp: pages that are coded ---
  [[nodiscard]] Location coded_place_of(Location home) const noexcept;
  [[nodiscard]] Places coded_places_of(Location home) const noexcept;
  [[nodiscard]] Places coded_readable_places(Location home) const noexcept;
  [[nodiscard]] Errc coded_state_of(const ChunkEntry& entry, const PlaceWords& words, FrameNo home) const noexcept;
  [[nodiscard]] bool can_make(const ChunkEntry& entry, std::uint32_t row) const noexcept;
  // Reads pages by way of the others in their columns. Waits.
  void make(Transfer& transfer) noexcept;
  struct Making;
  Errc make(Making& making) noexcept;
  void nap(const Deadline& deadline) noexcept;

  // --- outpost_tend.cpp ---
  Errc greet(const Deadline& deadline) noexcept;
  void tend_for(std::uint32_t least) noexcept;  // wants at least so many frames at hand
  // From here on all REQUIRE tend_mutex_.
  void receive() noexcept;
  // False: the message makes no sense.
  bool hear(std::span<const std::byte> message, ReceivedFds& fds) noexcept;
  bool hear_welcome(std::span<const std::byte> message, ReceivedFds& fds) noexcept;
  bool hear_node(std::span<const std::byte> message, ReceivedFds& fds) noexcept;
  bool hear_grant(std::span<const std::byte> message) noexcept;
  bool hear_of_node(keeper_wire::Type type, std::span<const std::byte> message, ReceivedFds& fds) noexcept;
  void give_up(OutpostNode& node, Errc why) noexcept;
  void drop_what_cannot_be_written() noexcept;
  void answer_seal() noexcept;
  void look_at_lanes() noexcept;
  bool report_lanes() noexcept;
  bool gather_returns() noexcept;
  bool send_returns() noexcept;
  bool send_all_returns() noexcept;
  void give_back_unless_full(const Run& run) noexcept;
  void ask(std::uint32_t least) noexcept;
  void mind_stock() noexcept;
  Errc say(keeper_wire::Type type, std::span<const std::byte> body, std::span<const std::byte> tail = {}) noexcept;
  void gone() noexcept;
  Errc ask_for_heir(const Deadline& deadline) noexcept;

  const OutpostConfig config_;
  Record* record_;
  Fd socket_;
  std::atomic<bool> gone_{false};
  std::atomic<bool> refused_{false};  // since the last grant
  std::atomic<Errc> why_refused_{Errc::ok};
  std::atomic<bool> ran_dry_{false};
  std::atomic<std::uint64_t> taken_{0};  // frames, ever
  std::atomic<std::uint64_t> stranded_{0};
  std::atomic<OutpostNode*>* const nodes_;  // by id; an entry is replaced only by a new session under the same id
  const ChunkEntry* map_ = nullptr;         // both from the welcome on
  BackupEntry* backup_ = nullptr;           // null: there is no backup
  std::uint32_t copies_ = 1;
  Code code_;
  Workrooms workrooms_;  // where there is a code
  bool relayed_ = false;
  Dock dock_;
  std::atomic<bool> tidy_{false};
  std::atomic<std::uint32_t> heard_{0};     // late places that can be used: ChunkEntry::since
  std::atomic<std::uint64_t> measured_{0};  // reads, since another copy than the usual was
  Ages ages_;                               // of transfers: a new one for each round of seals

  mutable Mutex frames_mutex_;
  RunList at_hand_;  // guarded by frames_mutex_

  Mutex returns_mutex_;
  RunList returns_;  // guarded by returns_mutex_

  Mutex tend_mutex_;  // guards all below
  std::byte* const buffer_;
  Run* const sending_;  // returns that are about to be sent
  std::size_t sending_count_ = 0;
  std::uint16_t ids_ = 0;  // nodes_ has entries below this only, but for the disk's
  bool welcomed_ = false;
  void* lifeline_ = nullptr;
  std::uint64_t asked_ = 0;  // frames asked for and not granted
  std::uint32_t stock_;
  std::uint64_t taken_before_ = 0;
  Clock::time_point busy_at_{};
  keeper_wire::Text farewell_;
  std::uint32_t heirs_due_ = 0;      // asked for and not answered
  std::uint32_t seal_heard_ = 0;     // the last round of seals,
  std::uint32_t seal_pending_ = 0;   // the one whose writes are waited for,
  std::uint32_t seal_answered_ = 0;  // and the one that was answered
  Fd heir_socket_;
  Fd heir_lifeline_;
};

// A connection to the keeper that listens there (listen_keeper() in run/keeper/keeper_listen.h). Errc::io: see errno.
Errc connect_keeper(std::string_view name, Fd* socket) noexcept;

}  // namespace comex
