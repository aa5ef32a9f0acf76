// Several lanes to one node, so that threads do not queue behind each other. What TcpLink, RdmaLink and a process with
// lanes that it was handed (run/outpost/outpost.h) have in common. See lane.h for how a lane works.
//
// Thread safety: all functions from any thread, but add(), which comes before all others.
// Fault path: all functions; nothing is allocated. Needs neither OpenSSL nor fmt.
//
// Invariant: when one lane fails all do, with the same error; broken() stays so.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "base/clock.h"
#include "base/expected.h"
#include "fabric/lane.h"
#include "fabric/transfer.h"

namespace comex {

class LaneSet {
 public:
  static constexpr std::uint32_t kMost = 16;

  explicit LaneSet(Millis transfer_timeout) : transfer_timeout_(transfer_timeout) {}
  LaneSet(const LaneSet&) = delete;
  LaneSet& operator=(const LaneSet&) = delete;

  // The word that lanes of this set are constructed with.
  [[nodiscard]] std::atomic<Errc>& broken_word() noexcept { return broken_; }
  // REQUIRES: fewer than kMost, and nobody uses the set yet. The lane outlives the set's last use.
  void add(Lane& lane) noexcept { lanes_[count_++] = &lane; }

  // `who` tells threads apart, as well as the caller can; each has a lane that it prefers.
  void submit(Transfer& transfer, std::uint32_t who) noexcept;
  void progress() noexcept;
  Errc wait(Transfer& transfer) noexcept;
  [[nodiscard]] Errc broken() const noexcept { return broken_.load(std::memory_order_acquire); }
  void sever(Errc why) noexcept;

 private:
  [[nodiscard]] std::uint32_t pick(Priority priority, std::uint32_t who) const noexcept;

  const Millis transfer_timeout_;
  std::atomic<Errc> broken_{Errc::ok};
  std::array<Lane*, kMost> lanes_{};
  std::uint32_t count_ = 0;
};

}  // namespace comex
