// A move of pages between local memory and the frames of one node, owned by whoever asked for it. Links carry transfers
// (fabric/link.h); so does a process that was given a way to the frames by another (run/outpost/outpost.h).
//
// Thread safety: a transfer belongs to its submitter until it is submitted, to the carrier until it is done.
// Fault path: all of it. This header and its source need neither OpenSSL nor fmt.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/clock.h"
#include "base/expected.h"
#include "wire/types.h"

namespace comex {

enum class Direction : std::uint8_t { read, write };

// Urgent: somebody waits for it (a fault). Bulk: write-back and prefetch, which must not delay the urgent.
enum class Priority : std::uint8_t { urgent, bulk };

// Contiguous frames and the local memory they come from or go to.
struct Segment {
  FrameNo first;
  std::uint32_t count = 0;
  std::byte* local = nullptr;
};

class Transfer {
 public:
  enum State : std::uint32_t { kIdle, kPending, kDone };

  Transfer() = default;
  Transfer(Direction way, std::span<const Segment> what, Priority how = Priority::urgent)
      : direction(way), priority(how), segments(what) {}
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  Direction direction = Direction::read;
  Priority priority = Priority::urgent;
  // At most kMaxSegments segments and kMaxTransferPages pages; the array must outlive the transfer.
  std::span<const Segment> segments;
  void* owner = nullptr;  // for the submitter; the link does not look at it

  // Acquire: when done() is true, the pages of a read are visible to this thread.
  [[nodiscard]] bool done() const { return state_.load(std::memory_order_acquire) == kDone; }
  // REQUIRES: done().
  [[nodiscard]] Errc result() const { return result_; }
  [[nodiscard]] std::uint32_t pages() const;

  // --- for links ---
  // Errc::invalid if there is nothing to move, a segment is malformed, or the limits are exceeded.
  [[nodiscard]] Errc check() const noexcept;
  void begin() { state_.store(kPending, std::memory_order_relaxed); }
  void finish(Errc result) {
    result_ = result;
    state_.store(kDone, std::memory_order_release);
  }
  Transfer* next = nullptr;      // the link's queue
  Clock::time_point deadline{};  // when the link gives up
  std::uint32_t lane = 0;        // which connection carries it
  std::uint32_t tag = 0;         // its number there
  std::uint64_t last_byte = 0;   // where its request ends in the bytes sent there

 private:
  std::atomic<std::uint32_t> state_{kIdle};
  Errc result_ = Errc::ok;
};

}  // namespace comex
