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
  const std::uint32_t need = used(batch);
  if (Run& run = batch.run; run.count > need) {  // what was taken at opening and not used goes back, once
    batch.homes.placed &= slots_below(need);
    frames_.put_back(run.from(need));
    run.count = need;
  }
  for (unsigned attempt = 0; attempt < config_.attempts && launch(batch); ++attempt) {
    const Outcome outcome = collect(batch, false);
    if (outcome != Outcome::failed) return conclude(batch, outcome);
  }
  hand_over(batch, BatchState::waiting);
}

// Looks where `slots` are to be written. Returns those that cannot be.
Slots Staging::look_up_places(Batch& batch, Slots slots) noexcept {
  Slots nowhere = 0;
  for (Target& target : batch.targets) target.slots &= ~slots;
  for_each_slot(slots, [&](std::uint32_t slot) {
    const Places places = frames_.places_of(batch.homes.at[slot]);
    const Slots bit = Slots{1} << slot;
    if (places.count == 0) nowhere |= bit;
    for (std::uint32_t copy = 0; copy < places.count; ++copy) {
      batch.targets[copy].at[slot] = places.at[copy];
      batch.targets[copy].slots |= bit;
    }
  });
  return nowhere;
}

// Sees to it that all of `live` have frames that can be written. False if there are too few.
bool Staging::find_places(Batch& batch, Slots live) noexcept {
  for (Target& target : batch.targets) target.slots = 0;
  Slots unknown = live & batch.homes.placed;
  for (unsigned attempt = 0; attempt < config_.attempts; ++attempt) {
    release(batch, look_up_places(batch, unknown));
    unknown = live & ~batch.homes.placed;
    if (unknown == 0) return true;
    for (Slots homeless = unknown; homeless != 0;) {
      const auto run = frames_.take(static_cast<std::uint32_t>(std::popcount(homeless)));
      if (!run) return false;
      homeless &= ~batch.homes.assign(homeless, *run);
    }
  }
  return false;
}

// Finds frames for the pages that have none, and submits all of them. False if there are too few frames.
bool Staging::launch(Batch& batch) noexcept {
  Slots live = 0;
  {
    const std::lock_guard lock(mutex_);
    live = batch.live;  // it only shrinks from here on
  }
  batch.ticket = frames_.begin_writes();
  const bool columns = code_.coded() && live != 0;
  if (code_.coded() && live == 0) frames_.put_back(std::exchange(batch.run, Run{}));
  if (!(columns ? find_columns(batch) : find_places(batch, live))) {
    frames_.end_writes(batch.ticket);
    return false;
  }
  std::uint64_t writes = 0;
  if (columns) encode(batch);
  for (std::uint32_t i = 0; i < batch.targets.size(); ++i) {
    Target& target = batch.targets[i];
    // All of it, also what was acknowledged in an earlier attempt: that node may be lost by now, and the bytes are
    // here.
    if (i < copies_) {
      target.prepare(batch.homes.starts, memory_of(batch));
    } else {
      target.prepare(batch.homes.column_starts, parity_of(batch, i - copies_));
    }
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
  Slots homeless = 0;
  for (Target& target : batch.targets) {
    for (Write& write : target.pending_writes()) {
      if (frames_.wait(write.node, write.transfer) == Errc::ok) continue;
      ++failed;
      homeless |= write.slots;
    }
    target.write_count = 0;
  }
  if (failed == 0) {
    for_each_slot(batch.targets[0].slots, [&](std::uint32_t slot) { frames_.wrote(batch.homes.at[slot]); });
  }
  frames_.end_writes(batch.ticket);
  if (code_.coded() && failed > 0) homeless = batch.homes.placed;  // none of its columns is written twice
  release(batch, homeless);  // only now: a copy of them may have been under way to another node
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
  for_each_slot(landing, [&](std::uint32_t slot) { landed_(batch.tags[slot], batch.homes.at[slot]); });
  release(batch, batch.homes.placed & ~landing);
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
  batch.run = Run{};
  batch.homes.clear();
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
