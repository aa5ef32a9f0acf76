// Has one node pull a run of frames from another, so that its pages do not come here. Where that cannot be done, or has
// failed, the caller copies them itself. See "Straight from node to node" in docs/design-notes.md.
//
// Thread safety: move() from one thread; stop() from any.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <utility>

#include "base/clock.h"
#include "pool/pool.h"

namespace comex {

class StraightMover {
 public:
  struct Config {
    Millis patience{10'000};   // for a node to say that it is over: it gives up by itself within 6 s
    Millis try_again{60'000};  // after one pair of nodes could not
    Millis ask_first{1};       // how it is; then twice as long each time
    Millis ask_longest{20};
  };
  enum class Outcome : std::uint8_t {
    landed,
    not_landed,  // and nothing of it will any more
    unknown,     // it may land as long as the link is the one that it was asked for on
  };
  struct Result {
    Outcome outcome = Outcome::not_landed;
    std::uint64_t link = 0;  // to the target; if the outcome is unknown
    bool busy = false;       // one of them had too much to do: the next time it may not
  };

  explicit StraightMover(Pool& pool) : StraightMover(pool, Config{}) {}
  StraightMover(Pool& pool, const Config& config) : pool_(pool), config_(config) {}

  // REQUIRES: as long as each other, and within the limits of one transfer; nobody writes to either meanwhile.
  Result move(const Run& from, const Run& to);
  // Whoever waits in move() leaves it soon.
  void stop() noexcept { stopping_.store(true); }

 private:
  using Pair = std::pair<std::uint16_t, std::uint16_t>;
  Result try_to(const Run& from, const Run& to);
  Result await(const Run& to, std::uint64_t link);
  Errc prepare(const Run& from, wire::Pull& pull, wire::SessionKey& key);
  [[nodiscard]] static bool can(const Link& link);

  Pool& pool_;
  const Config config_;
  std::map<Pair, Clock::time_point> not_before_;  // pairs that could not
  std::atomic<bool> stopping_{false};
};

}  // namespace comex
