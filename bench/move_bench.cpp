#include "bench/move_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <thread>

#include "base/progress.h"
#include "bench/interrupt.h"
#include "bench/move_round.h"
#include "bench/own_nodes.h"
#include "bench/steps.h"
#include "node/host_memory.h"
#include "pool/pool.h"

namespace comex::bench {

namespace {

constexpr Millis kRoomWithin{5'000};  // for nodes to have room
constexpr Millis kLookAgain{20};
constexpr Millis kStandsStill{400};
constexpr std::uint64_t kSmallestOwnNode = std::uint64_t{64} << 20;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Large enough for all of it in one round where the host can spare that, and half of what it can spare where not.
std::uint64_t own_node_memory(std::uint64_t bytes) {
  std::uint64_t each = bytes / 16 * 9;
  if (const auto host = read_host_memory()) each = std::min(each, spare_memory(*host) / 4);
  return std::max(each, kSmallestOwnNode);
}

// As the nodes say; one that does not answer has none.
std::uint64_t free_frames(const PoolConfig& pool) {
  LinkOptions observer = pool.link;
  observer.observe = true;
  std::uint64_t frames = 0;
  for (const Url& url : pool.nodes) {
    const Expected<std::unique_ptr<Link>> link = connect(url, observer);
    if (!link) continue;
    const Expected<wire::StatusReply> status = (*link)->status();
    if (status) frames += status->load.free_frames;
  }
  return frames;
}

// How many pages the pool will hold. If less than `wanted`, nodes may still be taking back what another client had: the
// figure must have stood still for a while.
std::uint64_t room_in(const PoolConfig& pool, std::uint64_t wanted) {
  std::uint64_t room = 0;
  Clock::time_point changed = Clock::now();
  for (const Deadline deadline(kRoomWithin); !deadline.passed() && !interrupted();) {
    const std::uint64_t frames = free_frames(pool);
    // Not the last sixteenth: taking the very last frames is slow, and others may want some.
    const std::uint64_t before = std::exchange(room, frames - frames / 16);
    if (room >= wanted) break;
    if (room != before) changed = Clock::now();
    if (room > 0 && Clock::now() - changed > kStandsStill) break;
    std::this_thread::sleep_for(kLookAgain);
  }
  return room;
}

class Mover {
 public:
  // A round moves up to `room` pages.
  Mover(Pool& pool, const MoveOptions& options, std::uint64_t room)
      : pool_(pool), pages_(options.bytes >> kPageShift), room_(room) {
    result_.threads = options.threads;
  }

  Expected<MoveResult> run() {
    while (result_.pages < pages_) {
      const std::uint64_t left = pages_ - result_.pages;
      const std::uint64_t rounds = result_.rounds + (left + room_ - 1) / room_;
      const std::string which = rounds > 1 ? fmt::format(" {}/{}", result_.rounds + 1, rounds) : "";
      if (Expected<void> done = one_round(std::min(left, room_), which); !done) return done.error();
    }
    add_spread();
    return result_;
  }

 private:
  Expected<void> one_round(std::uint64_t pages, const std::string& which) {
    MoveRound round(pool_, result_.pages, pages, result_.threads);
    if (!timed(result_.write_seconds, "writing" + which, pages, [&](Progress& p) { return round.write(p); })) {
      return round.failed();
    }
    std::uint64_t written = 0;
    for (const std::vector<Piece>& pieces : round.pieces()) {
      for (const Piece& piece : pieces) {
        written += piece.run.count;
        pages_by_node_[piece.run.node] += piece.run.count;
      }
    }
    if (written == 0) return Error{Errc::no_memory, "other clients took all free memory of the pool; try again later"};
    if (!timed(result_.read_seconds, "reading" + which, written, [&](Progress& p) { return round.check(p); })) {
      return round.failed();
    }
    ++result_.rounds;
    result_.pages += written;
    result_.wrong_pages += round.wrong_pages();
    result_.wrong_bytes += round.wrong_bytes();
    result_.seconds_waited += round.seconds_waited();
    return {};
  }

  template <typename Work>
  bool timed(double& seconds, const std::string& label, std::uint64_t pages, const Work& work) {
    Progress progress(label, pages << kPageShift);
    const Clock::time_point begin = Clock::now();
    const bool good = work(progress);
    seconds += seconds_since(begin);
    if (good) progress.finish();
    return good;
  }

  void add_spread() {
    for (const MemberStatus& member : pool_.status()) {
      result_.spread.push_back({member.url, pages_by_node_[member.node]});
    }
  }

  Pool& pool_;
  const std::uint64_t pages_;
  const std::uint64_t room_;
  MoveResult result_;
  std::map<NodeId, std::uint64_t> pages_by_node_;
};

}  // namespace

Expected<MoveResult> bench_move(const MoveOptions& options) {
  const Expected<TempFolder> folder = TempFolder::create();
  if (!folder) return folder.error();
  PoolConfig config;
  config.nodes = options.pool;
  config.link = options.link;
  config.link.name = "comex bench";
  OwnNodes own;
  if (options.pool.empty()) {
    const std::uint64_t memory = own_node_memory(options.bytes);
    Steps steps;
    steps.stage(fmt::format("starting two memory nodes of {} on this machine", format_size(memory)));
    Expected<OwnNodes> started = OwnNodes::start(folder->path(), 2, memory);
    if (!started) return started.error();
    own = *std::move(started);
    for (const OwnNode& node : own.nodes()) config.nodes.push_back(node.tcp);
    config.link.secret = own.secret();
  }
  const std::uint64_t room = room_in(config, options.bytes >> kPageShift);
  if (interrupted()) return interruption();
  Expected<std::unique_ptr<Pool>> pool = Pool::open(std::move(config));
  if (!pool) return pool.error();
  if (room == 0) return Error{Errc::no_memory, "the pool has no free memory; start `comex serve` with more"};
  return Mover(**pool, options, room).run();
}

}  // namespace comex::bench
