#include "bench/move_round.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <random>
#include <thread>

#include "bench/measure.h"
#include "bench/pattern.h"

namespace comex::bench {

namespace {

constexpr std::uint64_t kSeed = 0xc03e8;
constexpr Millis kFramesWithin{5'000};  // for frames, when other clients use the pool too
constexpr Millis kStretch{200};

}  // namespace

template <typename Work>
bool MoveRound::on_all_threads(const Work& work) {
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < pieces_.size(); ++i) threads.emplace_back([&work, i] { work(i); });
  for (std::thread& thread : threads) thread.join();
  if (interrupted()) fail(interruption());
  return !failed_;
}

bool MoveRound::write(Progress& progress) {
  return on_all_threads([&](unsigned thread) { write_on(thread, progress); });
}

bool MoveRound::check(Progress& progress) {
  return on_all_threads([&](unsigned thread) { check_on(thread, progress); });
}

template <typename Next, typename Done>
void MoveRound::move_all(Direction direction, const Next& next, const Done& done) {
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
std::optional<Run> MoveRound::take() {
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
    const Errc ready = wait_for_frames();
    if (ready == Errc::no_memory) break;  // others took it: the next round has the rest
    if (ready != Errc::ok) fail(Error{ready, fmt::format("no frames from the pool: {}", to_string(ready))});
  }
  return std::nullopt;
}

Errc MoveRound::wait_for_frames() {
  const Clock::time_point begin = Clock::now();
  Errc ready = Errc::timeout;
  // In short stretches, so that Ctrl-C is heard.
  for (const Deadline deadline(kFramesWithin); ready != Errc::ok && !stopped() && !deadline.passed();) {
    ready = pool_.wait_for_frames(1, Deadline(kStretch));
  }
  waited_ns_ += static_cast<std::uint64_t>(Nanos(Clock::now() - begin).count());
  return ready;
}

void MoveRound::write_on(unsigned thread, Progress& progress) {
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
void MoveRound::check_on(unsigned thread, Progress& progress) {
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

void MoveRound::check(const Slot& slot) {
  for (std::uint32_t i = 0; i < slot.piece.run.count; ++i) {
    const std::size_t wrong = count_wrong_bytes(kSeed, slot.piece.page + i, slot.memory + i * kPageSize);
    if (wrong == 0) continue;
    ++wrong_pages_;
    wrong_bytes_ += wrong;
  }
}

}  // namespace comex::bench
