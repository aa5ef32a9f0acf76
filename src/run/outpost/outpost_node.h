// One memory node as a process sees it whose pool is kept by another (run/outpost/outpost.h): the slabs that it may
// map, or the lanes that it was handed, to the node (tcp) or to the keeper (rdma). The disk is one, too: a file.
//
//       use_window / use_lanes / use_file       away, or a lane broke
//   closed ---------------------------> open ---------------------------> closed ... -> lost (for ever)
//
// Thread safety: the first group of functions from any thread; the second by one thread at a time, which is not inside
// the first. Nothing is replaced under a thread: see pool/turnstile.h.
// Fault path: all functions; nothing is allocated.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "base/expected.h"
#include "base/fd.h"
#include "fabric/desk_lane.h"
#include "fabric/lane_set.h"
#include "fabric/shm_window.h"
#include "fabric/stream.h"
#include "fabric/tcp_lane.h"
#include "pool/turnstile.h"
#include "run/keeper_wire.h"
#include "run/outpost/read_speed.h"
#include "run/packet.h"
#include "run/tally.h"

namespace comex {

struct OutpostLinkConfig {
  Millis transfer_timeout{2000};  // tcp, rdma: for one transfer; past it the lanes are given up
  Nanos max_spin{100'000};        // tcp, rdma: the longest spin before sleeping
};

class OutpostNode {
 public:
  // `mapped`: for shm, ShmWindow::slabs_of() flags, all false.
  OutpostNode(const keeper_wire::Node& told, const OutpostLinkConfig& config, std::atomic<bool>* mapped);
  ~OutpostNode();
  OutpostNode(const OutpostNode&) = delete;
  OutpostNode& operator=(const OutpostNode&) = delete;

  // --- any thread ---
  void submit(Transfer& transfer) noexcept;
  void poll() noexcept;
  Errc wait(Transfer& transfer) noexcept;
  // ok, disconnected (may come back) or fenced (lost).
  [[nodiscard]] Errc state() noexcept;
  [[nodiscard]] bool lost() const noexcept { return state_.load(std::memory_order_acquire) == Errc::fenced; }
  [[nodiscard]] const keeper_wire::Node& told() const noexcept { return told_; }
  [[nodiscard]] bool shm() const noexcept { return told_.medium == keeper_wire::Medium::shm; }
  [[nodiscard]] bool disk() const noexcept { return told_.medium == keeper_wire::Medium::disk; }
  // False for a disk that has refused a write: what is there can still be read.
  [[nodiscard]] bool takes_writes() const noexcept { return !refused_.load(std::memory_order_acquire); }

  // --- the tending thread ---
  // Errc::io: it stays closed.
  Errc use_window(int fence) noexcept;
  // Errc::invalid: there is no such slab. REQUIRES: nobody uses frames of what is mapped there now.
  Errc map(std::uint32_t slab, int memory) noexcept;
  // `dock`: of this process, for lanes to the keeper.
  Errc use_lanes(ReceivedFds& fds, Dock& dock) noexcept;
  Errc use_file(Fd file) noexcept;
  // Open again with what there is. shm only.
  void reopen() noexcept;
  // Completes everything under way with `why`, which is also what later transfers end in: disconnected, or fenced, for
  // ever. Returns when nobody is inside.
  void close(Errc why) noexcept;
  // Not ok, but what to close it with, if it is open and yet of no use: a lane failed, or the fence was raised.
  [[nodiscard]] Errc broke() const noexcept;
  // In a forked child, where nobody else runs: windows stay, lanes are the parent's and are let go of.
  void after_fork() noexcept;

  // --- any thread ---
  ReadSpeed speed;

  // --- the tending thread ---
  // Once, after takes_writes() has become false.
  [[nodiscard]] bool refused_first() noexcept { return !takes_writes() && !std::exchange(refusal_seen_, true); }

  bool must_report = false;  // the keeper has to hear that it broke

  // Counts there from now on. Nobody else is inside.
  void count_in(Record* record) noexcept { traffic_ = record != nullptr ? &record->with(told_.id) : nullptr; }

 private:
  void copy(Transfer& transfer) noexcept;
  void use_disk(Transfer& transfer) noexcept;
  void count(const Transfer& transfer) noexcept;
  void drop_lanes() noexcept;

  const keeper_wire::Node told_;
  const OutpostLinkConfig config_;
  std::atomic<bool>* const mapped_;
  std::atomic<Errc> state_{Errc::disconnected};
  Traffic* traffic_ = nullptr;
  Turnstile inside_;
  ShmWindow window_;
  Fd file_;
  std::atomic<bool> refused_{false};
  bool refusal_seen_ = false;
  std::optional<LaneSet> lanes_;
  std::array<std::optional<SocketStream>, keeper_wire::kMaxLanes> streams_;
  std::array<std::optional<TcpLane>, keeper_wire::kMaxLanes> lane_;
  std::array<std::optional<DeskLane>, keeper_wire::kMaxLanes> desks_;
};

}  // namespace comex
