// How a batch gets from closed to landed: frames, writes, acknowledgements, and what happens when they fail.
#include <bit>
#include <utility>

#include "pool/staging.h"

namespace comex {

void Staging::hand_over(Batch& batch, BatchState state) noexcept {
  const std::lock_guard lock(mutex_);
  batch.state = state;
}

void Staging::pursue(Batch& batch) noexcept {
  for (std::size_t t = 0; t < kTargets; ++t) {
    Run& run = batch.runs[t];  // what was taken at opening and not used goes back, once
    if (run.count <= batch.count) continue;
    batch.targets[t].placed &= slots_below(batch.count);
    frames_.put_back(run.from(batch.count));
    run.count = batch.count;
  }
  for (unsigned attempt = 0; attempt < config_.attempts && launch(batch); ++attempt) {
    const Outcome outcome = collect(batch, false);
    if (outcome != Outcome::failed) return conclude(batch, outcome);
  }
  hand_over(batch, BatchState::waiting);
}

// Finds frames for the pages that have none, and submits all of them. False if there are too few frames.
bool Staging::launch(Batch& batch) noexcept {
  Slots live = 0;
  {
    const std::lock_guard lock(mutex_);
    live = batch.live;  // it only shrinks from here on
  }
  for (Target& target : batch.targets) {
    target.write_count = 0;
    for (Slots homeless = live & ~target.placed; homeless != 0;) {
      const auto run = frames_.take(static_cast<std::uint32_t>(std::popcount(homeless)));
      if (!run) return false;
      homeless &= ~target.assign(homeless, *run);
    }
  }
  std::uint64_t writes = 0;
  for (Target& target : batch.targets) {
    // All of it, also what was acknowledged in an earlier attempt: that node may be lost by now, and the bytes are
    // here.
    target.prepare(live, memory_of(batch));
    for (Write& write : target.pending_writes()) frames_.submit(write.node, write.transfer);
    writes += target.write_count;
  }
  const std::lock_guard lock(mutex_);
  totals_.writes += writes;
  return true;
}

Staging::Outcome Staging::collect(Batch& batch, bool wait) noexcept {
  for (Target& target : batch.targets) {
    for (Write& write : target.pending_writes()) {
      if (write.transfer.done() || wait) continue;
      frames_.poll(write.node);
      if (!write.transfer.done()) return Outcome::pending;
    }
  }
  std::uint64_t failed = 0;
  for (Target& target : batch.targets) {
    for (Write& write : target.pending_writes()) {
      if (frames_.wait(write.node, write.transfer) == Errc::ok) continue;
      ++failed;
      target.release(write.slots, [this](const Run& run) { frames_.give_back(run); });
    }
    target.write_count = 0;
  }
  const std::lock_guard lock(mutex_);
  totals_.failed_writes += failed;
  return failed == 0 ? Outcome::complete : Outcome::failed;
}

void Staging::conclude(Batch& batch, Outcome outcome) noexcept {
  switch (outcome) {
    case Outcome::pending: return hand_over(batch, BatchState::writing);
    case Outcome::failed: return pursue(batch);
    case Outcome::complete: return land(batch);
  }
}

void Staging::land(Batch& batch) noexcept {
  Slots landing = 0;
  {
    const std::lock_guard lock(mutex_);
    landing = std::exchange(batch.live, 0);  // from here on cancel() is too late
  }
  for_each_slot(landing, [&](std::uint32_t slot) { landed_(batch.tags[slot], batch.targets[0].where[slot]); });
  for (Target& target : batch.targets) {
    target.release(target.placed & ~landing, [this](const Run& run) { frames_.give_back(run); });
  }
  const auto first = static_cast<std::uint32_t>(&batch - batches_.get()) * kBatchPages;
  {
    const std::lock_guard lock(mutex_);
    for_each_slot(landing, [&](std::uint32_t slot) { index_.erase(batch.tags[slot], first + slot); });
    totals_.landed += static_cast<std::uint64_t>(std::popcount(landing));
    recycle(batch);
  }
  moved_.advance();
}

void Staging::recycle(Batch& batch) noexcept {
  // Acquire, with the release of ~Pin: what was read under the pin was read before the memory is reused.
  if (batch.pins.load(std::memory_order_acquire) != 0) {
    batch.state = BatchState::draining;
    return;
  }
  batch.count = 0;
  for (std::size_t t = 0; t < kTargets; ++t) {
    batch.runs[t] = Run{};
    batch.targets[t].clear();
  }
  batch.state = BatchState::free;
}

void Staging::progress() noexcept {
  for (std::uint32_t i = 0; i < config_.batches; ++i) {
    Batch& batch = batches_[i];
    BatchState was = BatchState::free;
    {
      const std::lock_guard lock(mutex_);
      was = batch.state;
      if (was == BatchState::draining) recycle(batch);
      if (was == BatchState::writing || was == BatchState::waiting) batch.state = BatchState::busy;
    }
    if (was == BatchState::draining) moved_.advance();
    if (was == BatchState::writing) conclude(batch, collect(batch, false));
    if (was == BatchState::waiting) pursue(batch);
  }
}

}  // namespace comex
