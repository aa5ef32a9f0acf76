// Runs of frames in an array of fixed size: those at hand, and those on their way back.
//
// Thread safety: none; its owner has a mutex. Fault path: all functions; the memory is the owner's.
// Invariant: no run crosses a slab, if none that was put in does: runs are merged only where they were cut.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "pool/location.h"

namespace comex {

class RunList {
 public:
  RunList(Run* memory, std::uint32_t capacity) : runs_(memory), capacity_(capacity) {}

  // False, and nothing happens, if it is full.
  bool add(const Run& run) noexcept {
    if (size_ == capacity_) return false;
    runs_[size_++] = run;
    frames_ += run.count;
    return true;
  }
  // As add(). What is put back is usually the tail of what was taken last: then that run grows back, and half-filled
  // batches do not leave a list of crumbs.
  bool put_back(const Run& run) noexcept {
    if (current_ >= size_) return add(run);
    Run& current = runs_[current_];
    if (current.node != run.node || run.extent().end() != current.first.value || run.first.value < cut_) {
      return add(run);
    }
    current.first = run.first;
    current.count += run.count;
    frames_ += run.count;
    return true;
  }

  // Up to `want` frames of a run that is `usable(run)`: all of them if any run that is looked at has them, otherwise
  // the largest.
  template <typename Usable>
  std::optional<Run> take(std::uint32_t want, const Usable& usable) noexcept {
    if (want == 0) return std::nullopt;
    const auto picked = pick(want, usable);
    if (!picked) return std::nullopt;
    if (current_ != *picked) cut_ = runs_[*picked].first.value;
    current_ = *picked;
    Run& from = runs_[current_];
    const Run run{from.node, from.first, std::min(want, from.count)};
    from = from.from(run.count);
    frames_ -= run.count;
    if (from.count == 0) {
      from = runs_[--size_];
      current_ = capacity_;
    }
    return run;
  }

  // Moves up to into.size() runs out, the last first. Returns how many.
  std::size_t move_out(std::span<Run> into) noexcept {
    std::size_t count = 0;
    while (count < into.size() && size_ > 0) {
      into[count] = runs_[--size_];
      frames_ -= into[count++].count;
    }
    current_ = capacity_;
    return count;
  }
  // Drops the runs for which `drop(run)`.
  template <typename Drop>
  void drop_if(const Drop& drop) noexcept {
    Run* const end = std::remove_if(runs_, runs_ + size_, [&](const Run& run) { return drop(run) && forget(run); });
    size_ = static_cast<std::uint32_t>(end - runs_);
    current_ = capacity_;
  }

  [[nodiscard]] std::span<const Run> runs() const noexcept { return {runs_, size_}; }
  [[nodiscard]] std::uint64_t frames() const noexcept { return frames_; }
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }

 private:
  bool forget(const Run& run) noexcept {
    frames_ -= run.count;
    return true;
  }
  template <typename Usable>
  std::optional<std::uint32_t> pick(std::uint32_t want, const Usable& usable) const noexcept {
    if (current_ < size_ && runs_[current_].count >= want && usable(runs_[current_])) return current_;
    std::optional<std::uint32_t> fit;  // the smallest that gives all: large ones are kept for large wants
    std::optional<std::uint32_t> largest;
    // A list of crumbs can be long: a good one among the last is as good as the best of all.
    for (std::uint32_t i = size_; i > 0 && !(largest && i + kLook < size_); --i) {
      const Run& run = runs_[i - 1];
      if ((fit && run.count >= runs_[*fit].count) || !usable(run)) continue;
      if (run.count >= want) fit = i - 1;
      if (!largest || run.count > runs_[*largest].count) largest = i - 1;
      if (run.count == want) break;
    }
    return fit ? fit : largest;
  }

  static constexpr std::uint32_t kLook = 64;  // runs

  Run* const runs_;
  const std::uint32_t capacity_;
  std::uint32_t size_ = 0;
  std::uint32_t current_ = UINT32_MAX;  // carved last: consecutive takes get consecutive frames
  std::uint32_t cut_ = 0;               // where that run began: what lies before was never one with it
  std::uint64_t frames_ = 0;
};

}  // namespace comex
