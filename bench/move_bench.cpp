#include "bench/move_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <thread>

#include "base/progress.h"
#include "bench/interrupt.h"
#include "bench/measure.h"
#include "bench/own_nodes.h"
#include "bench/pattern.h"
#include "bench/steps.h"
#include "node/host_memory.h"
#include "pool/pool.h"

namespace comex::bench {

namespace {

constexpr std::uint64_t kSeed = 0xc03e8;
constexpr Millis kPatience{5'000};  // for frames, when other clients use the pool too
constexpr Millis kLookAgain{20};
constexpr Millis kStandsStill{400};
constexpr std::uint64_t kSmallestOwnNode = std::uint64_t{64} << 20;

// Pages from `page` on, and the frames they were written to.
struct Piece {
  std::uint64_t page = 0;
  Run run;
};

// One round: what its threads share. Pages are numbered through all rounds, so that a page left over from an earlier
// round cannot pass for one of this.
class Round {
 public:
  Round(Pool& pool, std::uint64_t first_page, std::uint64_t pages, unsigned threads)
      : pool_(pool), next_page_(first_page), left_(pages), pieces_(threads) {}

  // Both return when every thread is done; false: failed() says why.
  bool write(Progress& progress) {
    return on_all_threads([&](unsigned thread) { write_on(thread, progress); });
  }
  bool check(Progress& progress) {
    return on_all_threads([&](unsigned thread) { check_on(thread, progress); });
  }

  [[nodiscard]] const Error& failed() const { return *failed_; }
  [[nodiscard]] std::uint64_t wrong_pages() const { return wrong_pages_; }
  [[nodiscard]] std::uint64_t wrong_bytes() const { return wrong_bytes_; }
  [[nodiscard]] const std::vector<std::vector<Piece>>& pieces() const { return pieces_; }

 private:
  // A piece under way, and the memory it comes from or goes to.
  struct Slot {
    std::byte* memory = nullptr;
    Piece piece;
    Segment segment;
    Transfer transfer;
    bool busy = false;
  };

  template <typename Work>
  bool on_all_threads(const Work& work) {
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < pieces_.size(); ++i) threads.emplace_back([&work, i] { work(i); });
    for (std::thread& thread : threads) thread.join();
    if (interrupted()) fail(interruption());
    return !failed_;
  }

  // Keeps kBatchesInFlight pieces under way: `next` gives one or nothing when there are no more, `done` has it when it
  // has been moved.
  template <typename Next, typename Done>
  void move_all(Direction direction, const Next& next, const Done& done);

  std::optional<Run> take();
  void write_on(unsigned thread, Progress& progress);
  void check_on(unsigned thread, Progress& progress);
  void check(const Slot& slot);
  void fail(Error error) {
    const std::lock_guard lock(failure_mutex_);
    if (!failed_) failed_ = std::move(error);
    stop_ = true;
  }
  [[nodiscard]] bool stopped() const { return stop_.load(std::memory_order_relaxed) || interrupted(); }

  Pool& pool_;
  std::atomic<std::uint64_t> next_page_;
  std::atomic<std::uint64_t> left_;         // pages nobody has set out to write
  std::vector<std::vector<Piece>> pieces_;  // by the thread that wrote them; each is touched by one thread at a time
  std::atomic<std::uint64_t> wrong_pages_{0};
  std::atomic<std::uint64_t> wrong_bytes_{0};
  std::atomic<bool> stop_{false};
  std::mutex failure_mutex_;  // guards failed_ while threads run
  std::optional<Error> failed_;
};

template <typename Next, typename Done>
void Round::move_all(Direction direction, const Next& next, const Done& done) {
  const PageBuffer memory(kBatchPages * kBatchesInFlight);
  std::array<Slot, kBatchesInFlight> slots;
  const auto finish = [&](Slot& slot) {
    if (!std::exchange(slot.busy, false)) return;
    const Errc result = pool_.wait(slot.piece.run.node, slot.transfer);
    if (result == Errc::ok) return done(slot);
    fail(Error{result, fmt::format("{} a memory node failed: {}; is it still there? See `comex status`",
                                   direction == Direction::read ? "reading from" : "writing to", to_string(result))});
  };
  bool more = true;
  for (unsigned i = 0; more && !stopped(); i = (i + 1) % kBatchesInFlight) {
    Slot& slot = slots[i];
    finish(slot);
    slot.memory = memory.page(i * kBatchPages);
    const std::optional<Piece> piece = next(slot.memory);
    more = piece.has_value();
    if (!more) break;
    slot.piece = *piece;
    slot.segment = Segment{piece->run.first, piece->run.count, slot.memory};
    slot.transfer.direction = direction;
    slot.transfer.priority = Priority::bulk;
    slot.transfer.segments = std::span(&slot.segment, 1);
    pool_.submit(piece->run.node, slot.transfer);
    slot.busy = true;
  }
  // Also after a failure: until it completes, a transfer owns its memory.
  for (Slot& slot : slots) finish(slot);
}

// Frames for up to kBatchPages of the pages that are left; nothing when none are, or the pool has no more.
std::optional<Run> Round::take() {
  std::uint64_t left = left_.load();
  std::uint64_t want = 0;
  do {
    want = std::min<std::uint64_t>(left, kBatchPages);
  } while (want > 0 && !left_.compare_exchange_weak(left, left - want));
  while (want > 0 && !stopped()) {
    const std::optional<Run> run = pool_.take(static_cast<std::uint32_t>(want));
    if (run) {
      left_ += want - run->count;
      return run;
    }
    const Errc ready = pool_.wait_for_frames(1, Deadline(kPatience));
    if (ready == Errc::no_memory) break;  // others took it: the next round has the rest
    if (ready != Errc::ok) fail(Error{ready, fmt::format("no frames from the pool: {}", to_string(ready))});
  }
  return std::nullopt;
}

void Round::write_on(unsigned thread, Progress& progress) {
  const auto next = [&](std::byte* memory) -> std::optional<Piece> {
    const std::optional<Run> run = take();
    if (!run) return std::nullopt;
    const Piece piece{next_page_.fetch_add(run->count), *run};
    for (std::uint32_t i = 0; i < run->count; ++i) make_page(kSeed, piece.page + i, memory + i * kPageSize);
    return piece;
  };
  move_all(Direction::write, next, [&](const Slot& slot) {
    pieces_[thread].push_back(slot.piece);
    progress.advance(slot.piece.run.extent().bytes());
  });
}

// In random order, and what another thread wrote: nothing may depend on who comes and when.
void Round::check_on(unsigned thread, Progress& progress) {
  std::vector<Piece>& mine = pieces_[(thread + 1) % pieces_.size()];
  std::shuffle(mine.begin(), mine.end(), std::minstd_rand(thread));
  std::size_t at = 0;
  const auto next = [&](std::byte*) -> std::optional<Piece> {
    if (at == mine.size()) return std::nullopt;
    return mine[at++];
  };
  move_all(Direction::read, next, [&](const Slot& slot) {
    check(slot);
    pool_.give_back(slot.piece.run);
    progress.advance(slot.piece.run.extent().bytes());
  });
}

void Round::check(const Slot& slot) {
  for (std::uint32_t i = 0; i < slot.piece.run.count; ++i) {
    const std::size_t wrong = count_wrong_bytes(kSeed, slot.piece.page + i, slot.memory + i * kPageSize);
    if (wrong == 0) continue;
    ++wrong_pages_;
    wrong_bytes_ += wrong;
  }
}

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

// How many pages the pool will hold. If less than `wanted`, it may be that nodes are still taking back what a client
// had (us in the last round, or somebody before us): the figure must have stood still for a while.
std::uint64_t room_in(const PoolConfig& pool, std::uint64_t wanted) {
  std::uint64_t room = 0;
  Clock::time_point changed = Clock::now();
  for (const Deadline deadline(kPatience); !deadline.passed() && !interrupted();) {
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
  Mover(Pool& pool, const MoveOptions& options) : pool_(pool), pages_(options.bytes >> kPageShift) {
    result_.threads = options.threads;
  }

  Expected<MoveResult> run() {
    std::uint64_t usual_room = pages_;
    while (result_.pages < pages_) {
      const std::uint64_t left = pages_ - result_.pages;
      const std::uint64_t room = room_in(pool_.config(), std::min(left, usual_room));
      if (interrupted()) return interruption();
      if (room == 0) return Error{Errc::no_memory, "the pool has no free memory; start `comex serve` with more"};
      if (result_.rounds == 0) usual_room = room;
      const std::uint64_t rounds = result_.rounds + (left + usual_room - 1) / usual_room;
      const std::string which = rounds > 1 ? fmt::format(" {}/{}", result_.rounds + 1, rounds) : "";
      if (Expected<void> done = one_round(std::min(left, room), which); !done) return done.error();
    }
    add_spread();
    return result_;
  }

 private:
  Expected<void> one_round(std::uint64_t pages, const std::string& which) {
    Round round(pool_, result_.pages, pages, result_.threads);
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
  Expected<std::unique_ptr<Pool>> pool = Pool::open(std::move(config));
  if (!pool) return pool.error();
  return Mover(**pool, options).run();
}

}  // namespace comex::bench
