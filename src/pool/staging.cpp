#include "pool/staging.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace comex {

Expected<std::unique_ptr<Staging>> Staging::create(Frames& frames, const StagingConfig& config, Landed landed) {
  if (config.batches == 0) return Error{Errc::invalid, "staging needs at least one batch"};
  void* memory = config.memory;
  if (memory == nullptr) {
    memory = mmap(nullptr, config.bytes(frames.code()), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  }
  if (memory == MAP_FAILED) return system_error("cannot allocate the staging buffers");
  return std::unique_ptr<Staging>(new Staging(frames, config, std::move(landed), static_cast<std::byte*>(memory)));
}

Staging::Staging(Frames& frames, const StagingConfig& config, Landed landed, std::byte* memory)
    : frames_(frames),
      config_(config),
      code_(frames.code()),
      landed_(std::move(landed)),
      memory_(memory),
      index_(config.batches * kBatchPages),
      copies_(frames.copies()),
      batches_(std::make_unique<Batch[]>(config.batches)),
      targets_(std::make_unique<Target[]>(std::size_t{config.batches} * (copies_ + code_.parity))) {
  const std::uint32_t each = copies_ + code_.parity;
  for (std::uint32_t i = 0; i < config.batches; ++i) batches_[i].targets = {&targets_[i * each], each};
}

Staging::~Staging() {
  for (std::uint32_t i = 0; i < config_.batches; ++i) {
    Batch& batch = batches_[i];
    if (batch.state == BatchState::free || batch.state == BatchState::draining) continue;
    if (batch.state == BatchState::writing) collect(batch, true);
    frames_.put_back(code_.coded() ? batch.run : batch.run.from(std::min(batch.count, batch.run.count)));
    release(batch, batch.homes.placed & slots_below(used(batch)));
  }
  if (config_.memory == nullptr) munmap(memory_, config_.bytes(code_));
}

std::span<std::byte> Staging::memory() const noexcept {
  return {memory_, config_.batches * kBatchBytes};
}

void Staging::put_back(Batch& batch) noexcept {
  frames_.put_back(std::exchange(batch.run, Run{}));
  batch.homes.clear();
}

void Staging::release(Batch& batch, Slots slots) noexcept {
  batch.homes.release(slots, [this](const Run& run) { frames_.give_back(run); });
}

std::byte* Staging::memory_of(const Batch& batch) const noexcept {
  return memory_ + static_cast<std::size_t>(&batch - batches_.get()) * kBatchBytes;
}

std::byte* Staging::parity_of(const Batch& batch, std::uint32_t which) const noexcept {
  const auto number = static_cast<std::size_t>(&batch - batches_.get());
  const std::size_t before = number * StagingConfig::parity_pages(code_) + which * (kBatchPages / code_.data);
  return memory_ + config_.batches * kBatchBytes + before * kPageSize;
}

// --- in ---

std::uint32_t Staging::any(BatchState state) const noexcept {
  std::uint32_t found = kNone;
  for (std::uint32_t i = 0; i < config_.batches; ++i) {
    if (batches_[i].state != state) continue;
    if (found == kNone || batches_[i].age < batches_[found].age) found = i;
  }
  return found;
}

// Makes a free batch the current one. False if there is none.
bool Staging::open_batch() noexcept {
  std::uint32_t opened = kNone;
  {
    const std::lock_guard lock(mutex_);
    if (current_ != kNone) return true;
    opened = any(BatchState::free);
    if (opened == kNone) return false;
    batches_[opened].state = BatchState::busy;
  }
  Batch& batch = batches_[opened];
  batch.capacity = code_.round_down(kBatchPages);
  const auto run = frames_.take(batch.capacity);
  batch.run = run.value_or(Run{});
  if (run) {
    // Columns are laid when it is known how many there are.
    if (!code_.coded()) batch.homes.assign(slots_below(run->count), *run);
    if (run->count >= config_.short_run) batch.capacity = run->count;
  }
  {
    const std::lock_guard lock(mutex_);
    if (current_ == kNone) {
      batch.age = ++opened_;
      batch.state = BatchState::filling;
      current_ = opened;
      return true;
    }
  }
  // Another thread was faster.
  put_back(batch);
  hand_over(batch, BatchState::free);
  return true;
}

std::optional<Staging::Reservation> Staging::carve(std::span<const Tag> tags) noexcept {
  Batch& batch = batches_[current_];
  const auto room = batch.capacity - batch.count;
  const auto count = static_cast<std::uint32_t>(std::min<std::size_t>(tags.size(), room));
  const std::uint32_t first = batch.count;
  std::copy_n(tags.begin(), count, batch.tags.begin() + first);
  batch.count += count;
  batch.uncommitted |= slots_below(batch.count) & ~slots_below(first);
  const Reservation reservation{memory_of(batch) + first * kPageSize, count, current_ * kBatchPages + first};
  if (batch.count == batch.capacity) (void)close(batch);
  return reservation;
}

std::optional<Staging::Reservation> Staging::reserve(std::span<const Tag> tags) noexcept {
  if (tags.empty()) return std::nullopt;
  for (bool looked = false;; looked = true) {
    do {
      const std::lock_guard lock(mutex_);
      if (current_ != kNone) return carve(tags);
    } while (open_batch());
    if (looked) return std::nullopt;
    progress();  // something may have landed since anybody looked
  }
}

void Staging::commit(const Reservation& reservation, std::uint64_t abandoned) noexcept {
  Batch& batch = batch_of(reservation.first);
  const std::uint32_t first = reservation.first % kBatchPages;
  bool mine = false;
  // Where pages are coded it is written all the same: not with what was there before.
  if (code_.coded()) {
    for_each_slot(abandoned, [&](std::uint32_t i) { std::memset(reservation.memory + i * kPageSize, 0, kPageSize); });
  }
  {
    const std::lock_guard lock(mutex_);
    for (std::uint32_t i = 0; i < reservation.count; ++i) {
      const Slots bit = Slots{1} << (first + i);
      batch.uncommitted &= ~bit;
      if ((abandoned >> i & 1) != 0) continue;
      batch.live |= bit;
      index_.put(batch.tags[first + i], reservation.first + i);
    }
    if (batch.state == BatchState::closing) mine = close(batch);
  }
  if (mine) pursue(batch);
}

bool Staging::put(Tag tag, const std::byte* page) noexcept {
  const auto slot = reserve({&tag, 1});
  if (!slot) return false;
  std::memcpy(slot->memory, page, kPageSize);
  commit(*slot);
  return true;
}

bool Staging::close(Batch& batch) noexcept {
  if (batch.state == BatchState::filling) current_ = kNone;
  batch.state = batch.uncommitted == 0 ? BatchState::busy : BatchState::closing;
  return batch.uncommitted == 0;
}

void Staging::flush() noexcept {
  Batch* mine = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (current_ == kNone || batches_[current_].count == 0) return;
    Batch& batch = batches_[current_];
    if (close(batch)) mine = &batch;
  }
  if (mine != nullptr) pursue(*mine);
}

// --- staged ---

std::optional<Staging::Pin> Staging::find(Tag tag) noexcept {
  const std::lock_guard lock(mutex_);
  const auto slot = index_.find(tag);
  if (!slot) return std::nullopt;
  Batch& batch = batch_of(*slot);
  batch.pins.fetch_add(1, std::memory_order_relaxed);
  return Pin(&batch.pins, memory_ + *slot * kPageSize);
}

bool Staging::copy_out(Tag tag, std::byte* to) noexcept {
  const auto pin = find(tag);
  if (!pin) return false;
  std::memcpy(to, pin->bytes(), kPageSize);
  return true;
}

bool Staging::cancel(Tag tag) noexcept {
  const std::lock_guard lock(mutex_);
  const auto slot = index_.find(tag);
  if (!slot) return false;
  Batch& batch = batch_of(*slot);
  const Slots bit = Slots{1} << *slot % kBatchPages;
  if ((batch.live & bit) == 0) return false;  // landing
  batch.live &= ~bit;
  index_.erase(tag, *slot);
  return true;
}

// --- waiting ---

void Staging::help(const Deadline& deadline) noexcept {
  constexpr Millis kMoment{1};
  const auto seen = moved_.current();
  Batch* mine = nullptr;
  bool starved = false;
  {
    const std::lock_guard lock(mutex_);
    const std::uint32_t oldest = any(BatchState::writing);
    if (oldest != kNone) {
      mine = &batches_[oldest];
      mine->state = BatchState::busy;
    }
    starved = any(BatchState::waiting) != kNone;
  }
  const Deadline moment = Deadline::at(std::min(deadline.when(), Clock::now() + kMoment));
  if (mine != nullptr) {
    conclude(*mine, collect(*mine, true));
  } else if (starved && frames_.at_hand() == 0) {
    (void)frames_.wait_for_frames(1, moment);
  } else {
    moved_.wait(seen, moment.when());
  }
}

template <typename Done>
Errc Staging::wait_until(Done&& done, const Deadline& deadline) noexcept {
  for (;;) {
    progress();
    bool starved = false;
    {
      const std::lock_guard lock(mutex_);
      if (done()) return Errc::ok;
      starved = any(BatchState::waiting) != kNone;
    }
    if (deadline.passed()) return starved ? Errc::no_memory : Errc::timeout;
    help(deadline);
  }
}

Errc Staging::wait_for_room(const Deadline& deadline) noexcept {
  return wait_until([this] { return current_ != kNone || any(BatchState::free) != kNone; }, deadline);
}

Errc Staging::drain(const Deadline& deadline) noexcept {
  flush();
  return wait_until(
      [this] {
        for (std::uint32_t i = 0; i < config_.batches; ++i) {
          const Batch& batch = batches_[i];
          const bool empty = batch.state == BatchState::filling && batch.count == 0;
          if (batch.state != BatchState::free && batch.state != BatchState::draining && !empty) return false;
        }
        return true;
      },
      deadline);
}

void Staging::put_away() noexcept {
  Batch* opened = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (current_ == kNone || batches_[current_].count > 0) return;
    opened = &batches_[current_];
    opened->state = BatchState::busy;
    current_ = kNone;
  }
  put_back(*opened);
  hand_over(*opened, BatchState::free);
}

StagingStats Staging::stats() const noexcept {
  const std::lock_guard lock(mutex_);
  StagingStats stats = totals_;
  for (std::uint32_t i = 0; i < config_.batches; ++i) {
    const Batch& batch = batches_[i];
    stats.staged += static_cast<std::uint32_t>(std::popcount(batch.live));
    stats.batches_writing += batch.state == BatchState::writing;
    stats.batches_waiting += batch.state == BatchState::waiting;
  }
  return stats;
}

}  // namespace comex
