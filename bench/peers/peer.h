// What comex is measured beside: anything that holds pages and gives them back. One interface, so that one measuring
// loop serves all and its own cost is the same on every side.
//
// Pages are numbered from 0 to the size of the set; the loops pick them at random, as a faulting program would.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "base/expected.h"
#include "base/units.h"
#include "fabric/link.h"

namespace comex::bench {

inline constexpr std::uint32_t kBatchPages = 64;  // pages in one batch of the throughput figures
inline constexpr unsigned kBatchesInFlight = 4;   // batches a thread keeps under way

// The names under which systems appear in tables, JSON and goals.
inline constexpr std::string_view kMemcpy = "memcpy";
inline constexpr std::string_view kBareTcp = "bare TCP";
inline constexpr std::string_view kRedis = "redis";
inline constexpr std::string_view kNbdkit = "nbdkit";
inline constexpr std::string_view kComexShm = "comex shm";
inline constexpr std::string_view kComexTcp = "comex tcp";
inline constexpr std::string_view kPerftest = "perftest";
inline constexpr std::string_view kComexRdma = "comex rdma";

// One thread's way to move batches of kBatchPages, several under way at once, all in one direction. It may go while
// batches are under way (after a failure); their memory must still be there then.
class Batches {
 public:
  virtual ~Batches() = default;
  // Begins batch `slot` (below kBatchesInFlight) with the pages from `first`. Where a system cannot begin without
  // finishing, it finishes here. `local` is the caller's until finish() of the same slot.
  virtual Errc start(unsigned slot, std::uint32_t first, std::byte* local) = 0;
  // Waits for it. Slots are finished in the order they were started.
  virtual Errc finish(unsigned slot) = 0;
  // After the last finish, still timed: waits for what a system has taken but not yet delivered.
  virtual Errc end() { return Errc::ok; }
};

// Not thread-safe; the Batches it hands out may be used one per thread.
class Peer {
 public:
  virtual ~Peer() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;

  // Moves the contiguous pages [first, first + count) and waits until they are there. `count` is at most kBatchPages,
  // and they lie within one aligned group of kBatchPages.
  virtual Errc read(std::uint32_t first, std::uint32_t count, std::byte* into) = 0;
  virtual Errc write(std::uint32_t first, std::uint32_t count, std::byte* from) = 0;

  // Memory that pages will come from and go to, and its end: for those who had better know beforehand. Not timed.
  virtual void enlist(std::span<std::byte>) {}
  virtual void delist(std::span<std::byte>) {}

  // A connection of its own where the system has connections. Opening it is not timed.
  virtual Expected<std::unique_ptr<Batches>> batches(Direction direction) = 0;

  // False: reads give no more than the right number of bytes (a bare connection).
  [[nodiscard]] virtual bool stores() const { return true; }
  // Called between slices, of this peer or any other.
  virtual void keep_alive() {}
};

}  // namespace comex::bench
