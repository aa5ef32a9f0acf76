// One process of the program, as the keeper knows it: its connection, what it has been told, what it holds.
//
// Thread safety: none; belongs to the keeper's loop.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "run/keeper/frame_book.h"
#include "run/keeper_wire.h"
#include "run/lifeline.h"

namespace comex {

// What a process has been told of a node, and its lanes there.
struct KeptNode {
  enum class Lanes : std::uint8_t {
    none,     // shm, or not opened yet
    opening,  // a LaneOpener job is under way
    ready,    // sent; `lanes` are duplicates of them
    over,     // not to be used any more; what is in them may still have an effect until the link is another
  };
  Lanes state = Lanes::none;
  bool told_away = false;
  std::uint64_t link = 0;  // that the lanes belong to, or are being opened for
  std::vector<Fd> lanes;
  std::unordered_map<std::uint32_t, std::uint64_t> slabs;  // shm: the lives of those it has mapped
  Clock::time_point try_at{};                              // lanes could not be opened: not again before

  // Given up: nothing in them counts any more.
  void drop_lanes() {
    lanes.clear();
    state = Lanes::none;
    link = 0;
  }
};

class KeptProcess {
 public:
  KeptProcess(std::uint64_t number, Fd socket) : number_(number), socket_(std::move(socket)) {}

  [[nodiscard]] std::uint64_t number() const { return number_; }
  [[nodiscard]] int socket() const { return socket_.get(); }
  [[nodiscard]] std::string name() const;  // for the log

  // Queues a message and sends what it can. False if the process is gone, or reads nothing for too long.
  bool send(keeper_wire::Type type, std::vector<Fd> fds = {});
  template <typename Body>
  bool send(keeper_wire::Type type, const Body& body, std::vector<Fd> fds = {}) {
    return queue(type, std::as_bytes(std::span(&body, 1)), {}, std::move(fds));
  }
  // REQUIRES: at most kMaxRuns, and not none.
  bool send_runs(keeper_wire::Type type, std::span<const Run> runs);
  // False as send().
  bool flush();
  [[nodiscard]] bool has_unsent() const { return !unsent_.empty(); }

  // No more words; what it holds is kept until it can touch nothing any more.
  void close() {
    socket_.reset();
    unsent_.clear();
  }
  [[nodiscard]] bool talking() const { return bool(socket_); }

  // --- of the loop, which fills and reads them ---
  pid_t pid = 0;  // as this keeper sees it; 0: not known (yet)
  Fd pidfd;
  bool greeted = false;
  std::optional<Lifeline> lifeline;
  FrameBook::Holder holder;
  std::uint64_t wanted = 0;      // frames asked for and not granted
  bool told_refused = false;     // since the last grant
  Clock::time_point renew_at{};  // the session is not resumed for its sake before
  bool watching_room = false;    // epoll tells when there is room in the socket
  bool ending_lanes = false;     // leaving: begin_lane_end() has been called for all lanes
  Clock::time_point late_at{};   // leaving: when to stop waiting for the nodes to close them
  Clock::time_point look_at{};   // leaving: when to look at the lifeline again
  Millis look_pause{1};
  std::unordered_map<std::uint16_t, KeptNode> nodes;
  std::vector<Run> parked;      // granted, to be told when there are lanes to all places
  std::uint32_t heard = 0;      // of late places up to this: ChunkEntry::since
  std::uint32_t sealed = 0;     // the last round of seals that it has answered,
  std::uint32_t seal_sent = 0;  // the last that it was told of,
  Clock::time_point seal_at{};  // and when it was told of the first that it has not answered

 private:
  struct Message {
    std::vector<std::byte> bytes;
    std::vector<Fd> fds;
  };
  bool queue(keeper_wire::Type type, std::span<const std::byte> body, std::span<const std::byte> tail,
             std::vector<Fd> fds);

  // A process that is stopped reads nothing; what it is told meanwhile is bounded by what it asked for, but for nodes
  // that come and go.
  static constexpr std::size_t kMostUnsent = 4096;

  const std::uint64_t number_;
  Fd socket_;
  std::deque<Message> unsent_;
};

}  // namespace comex
