// The measuring loops: one for latency, one for throughput. Both see only the Peer interface, so what they cost
// themselves (a random number, two readings of the clock, a virtual call) is the same for every system.
#pragma once

#include <cstdint>
#include <vector>

#include "base/clock.h"
#include "bench/peers/peer.h"
#include "bench/samples.h"

namespace comex::bench {

// xorshift64*: two nanoseconds, no table.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15 + 1) {}
  // Below `bound`, which is small enough for the bias not to matter.
  std::uint32_t below(std::uint32_t bound) {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    const std::uint64_t high = (state_ * 0x2545f4914f6cdd1d) >> 32;
    return static_cast<std::uint32_t>((high * bound) >> 32);
  }

 private:
  std::uint64_t state_;
};

// Page-aligned memory that the pages go to and come from, touched. The same for every system.
class PageBuffer {
 public:
  // `peer`, if given, is told of it.
  explicit PageBuffer(std::uint32_t pages, Peer* peer = nullptr);
  ~PageBuffer();
  PageBuffer(const PageBuffer&) = delete;
  PageBuffer& operator=(const PageBuffer&) = delete;
  [[nodiscard]] std::byte* page(std::uint32_t number) const { return memory_ + (std::size_t{number} << kPageShift); }

 private:
  Peer* const peer_;
  std::byte* memory_;
  std::size_t bytes_;
};

struct Latency {
  Direction direction = Direction::read;
  std::uint32_t pages = 1;
};

// Writes every page of the set once, marked with its number, and reads some back to see that the peer keeps them.
Expected<void> fill(Peer& peer, std::uint32_t set_pages);

// Moves `what.pages` contiguous pages picked at random from the set, one after the other, for that long.
Expected<Summary> measure_latency(Peer& peer, const Latency& what, std::uint32_t set_pages, Clock::duration slice,
                                  Samples& samples);

// Moves batches with `threads` threads for that long. Bytes per second.
Expected<double> measure_throughput(Peer& peer, Direction direction, unsigned threads, std::uint32_t set_pages,
                                    Clock::duration slice);

}  // namespace comex::bench
