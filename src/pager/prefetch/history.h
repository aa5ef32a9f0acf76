// What is remembered of faults: the streams that they make up.
//
// A program that works on several arrays at once faults here and there in turn, and its faults in order look like
// noise. So a thread has a few streams, each a place in memory where faults go on: a fault belongs to the stream that
// expects it, or else to the one that is near. What is near none begins a stream of its own. If it goes on with a
// stride that is wider than that (strays.h), it begins another of that: such a one has no place to be near to, only
// faults that it expects.
//
// When there are too many, those go first that brought nothing: what a stream brought is its credit, and it pays for
// being passed over. So faults at random, which begin a stream each, do not drive out one that is in use, and one that
// has ended goes in time.
//
// Thread safety: one thread; SharedHistory: any, but one at a time. Fault path: yes; nothing is allocated.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <optional>

#include "pager/page.h"
#include "pager/prefetch/attention.h"
#include "pager/prefetch/follower.h"
#include "pager/prefetch/footprints.h"
#include "pager/prefetch/line.h"
#include "pager/prefetch/strays.h"
#include "pager/prefetch/trend.h"

namespace comex {

// Whether the pages of a stream are written to once they are here. A page that is placed clean costs another fault when
// it is; one that is placed as if it had been costs nothing more, but must be sent when it leaves. So what most of the
// last ones were is what the next ones are taken to be; and now and then some are placed clean, to see.
struct Writes {
  std::uint16_t placed = 0;   // clean, with the last fault
  std::uint16_t written = 0;  // ... of which have been
  std::uint8_t turns = 0;     // that it was so
  bool expected = false;

  // What to take the next ones for.
  bool next() noexcept {
    constexpr std::uint8_t kLookEvery = 16;
    if (expected) {
      expected = ++turns % kLookEvery != 0;
    } else {
      expected = 2 * written > placed;
    }
    placed = written = 0;
    return expected;
  }
};

struct FaultStream {
  PageNo last;                // where it faulted last,
  std::uint32_t offset = 0;   // ... and where in that page, if that is known
  Step step;                  // its trend
  std::uint16_t covered = 0;  // so many steps from there on are in memory
  std::uint16_t brought = 0;  // ... of which so many were brought in for this stream
  std::uint16_t window = 0;   // how many were to come with the last fault
  std::uint16_t hits = 0;     // how many of those that came were used, as far as is known yet
  std::uint16_t credit = 0;
  Writes writes;
  Deltas deltas;       // in pages
  Deltas byte_deltas;  // in bytes

  void begin(PageNo page, std::uint32_t at_byte = 0) noexcept {
    last = page;
    offset = at_byte;
    step = {};
    covered = brought = window = hits = credit = 0;
    writes = {};
    deltas.clear();
    byte_deltas.clear();
  }
  // One more fault is known: a step before the first of the line.
  void begin(const Line& line) noexcept {
    begin(line.first, line.offset);
    step = line.step;
    deltas.push(as_delta(step.pages));
    byte_deltas.push(as_delta(step.in_bytes()));
  }
  [[nodiscard]] Line line() const noexcept { return {last, offset, step}; }
  // Where it faults next, if it goes on and uses all that is there.
  [[nodiscard]] PageNo expected() const noexcept { return line().at(std::int64_t{covered} + 1); }
  // Where it is now, as far as is known.
  [[nodiscard]] PageNo place() const noexcept { return covered > 0 ? expected() : last; }
  // How many steps of the trend it is from the last fault to this one; 0: it does not lie on the trend, or is further
  // than expected.
  [[nodiscard]] std::uint32_t steps_to(PageNo page) const noexcept { return line().steps_to(page, covered + 1U); }
  // A page that is mapped ahead says nothing when it is used. But who faults so many steps further on has passed by
  // those between, for they would have faulted otherwise.
  [[nodiscard]] std::uint32_t used(std::uint32_t steps) const noexcept {
    return steps == 0 ? 0 : std::min<std::uint32_t>(steps - 1, brought);
  }
  [[nodiscard]] std::int32_t delta_to(PageNo page) const noexcept {
    return as_delta(static_cast<std::int64_t>(page - last));
  }
  // The same in bytes, with each of so many steps; of none: all of it.
  [[nodiscard]] std::int32_t byte_delta_to(PageNo page, std::uint32_t at_byte, std::uint32_t steps) const noexcept {
    const std::int64_t distance = std::int64_t{delta_to(page)} * static_cast<std::int64_t>(kPageSize) +
                                  (std::int64_t{at_byte} - std::int64_t{offset});
    return as_delta(steps > 0 && distance % steps == 0 ? distance / steps : distance);
  }
  // 0: too far to say.
  static std::int32_t as_delta(std::int64_t distance) noexcept {
    return std::abs(distance) > std::numeric_limits<std::int32_t>::max() ? 0 : static_cast<std::int32_t>(distance);
  }
  void move_to(PageNo page, std::uint32_t at_byte = 0) noexcept {
    last = page;
    offset = at_byte;
    covered = brought = 0;
  }
};

// Whether it is worth while to follow trends: of all streams together (prefetch/automatic.h).
struct Trends {
  std::uint32_t brought = 0;     // pages along them since that was last judged
  std::uint32_t used = 0;        // ... of which were, as far as is known
  bool measuring = false;        // what comes goes to the read buffer, where its use is seen
  std::uint32_t trusted = 0;     // so many times it need not be measured again
  std::uint32_t pause = 0;       // so many faults more without
  std::uint32_t last_pause = 0;  // how long the last one was, if nothing has been of use since
};

// What comes of playing the faults of an earlier run (prefetch/recorded.h).
struct Replay {
  Follower follower;
  std::uint32_t asked = 0;       // up to this place, but not it, pages were asked for
  std::uint32_t looked = 0;      // faults since it was last judged
  std::uint32_t found = 0;       // ... of which had their place
  std::uint32_t brought = 0;     // pages since that was last judged
  std::uint32_t used = 0;        // ... of which were
  std::uint32_t pause = 0;       // so many faults more without
  std::uint32_t last_pause = 0;  // how long the last one was, if it has not been of use since
};

struct History {
  static constexpr std::size_t kStreams = 8;
  static constexpr std::size_t kWide = 8;
  static constexpr std::size_t kNone = kStreams + kWide;
  static constexpr std::uint64_t kNear = 64;    // pages
  static constexpr std::uint32_t kSkipped = 4;  // faults of a wide stride that may not be seen here

  Attention attention;
  std::array<FaultStream, kStreams + kWide> streams;  // the last of them are of wide strides
  std::uint8_t hand = 0;                              // who is asked next to make room
  std::uint8_t wide_hand = 0;                         // ... of the wide ones
  Strays strays;

  // Of neighbours (prefetch/neighbours.h):
  std::uint32_t group = 0;    // how many are brought in together now
  std::uint32_t misses = 0;   // since they are not
  std::uint32_t brought = 0;  // since it was last judged whether they are of use
  std::uint32_t used = 0;     // ... of which were

  Trends trends;
  Footprints footprints;
  Replay replay;

  // The stream that a fault belongs to; kNone.
  [[nodiscard]] std::size_t find(PageNo page) const noexcept {
    std::size_t nearest = kNone;
    std::uint64_t distance = kNear + 1;
    for (std::size_t i = 0; i < kStreams; ++i) {
      if (streams[i].steps_to(page) > 0) return i;
      const std::uint64_t far = page - streams[i].place();
      if (const std::uint64_t its = std::min(far, ~far + 1); its < distance) {
        distance = its;
        nearest = i;
      }
    }
    for (std::size_t i = kStreams; i < streams.size(); ++i) {
      const FaultStream& wide = streams[i];
      const std::uint32_t most = nearest == kNone ? wide.covered + 1U + kSkipped : wide.covered + 1U;
      if (wide.line().steps_to(page, most) > 0) return i;
    }
    return nearest;
  }
  // A page that had been placed clean is written to. True if it is of a stream, which learns from that.
  bool wrote(PageNo page) noexcept {
    for (FaultStream& stream : streams) {
      if (stream.last != page && stream.steps_to(page) == 0) continue;
      ++stream.writes.written;
      return stream.writes.placed > 1;
    }
    return false;
  }
  // The same of a fault that has just been. If no stream is found one begins, and another if the fault goes on with a
  // wide stride, which it belongs to. kNone: it is the first of its stream.
  std::size_t join(PageNo page, std::uint32_t at_byte = 0) noexcept {
    if (const std::size_t found = find(page); found != kNone) {
      strays.pass();
      return found;
    }
    streams[make_room(0, kStreams, hand)].begin(page, at_byte);
    const std::optional<Line> stride = strays.add(page, at_byte);
    if (!stride) return kNone;
    const std::size_t wide = make_room(kStreams, kWide, wide_hand);
    streams[wide].begin(*stride);
    return wide;
  }

 private:
  // Of so many streams: the one whose place a new one takes.
  std::size_t make_room(std::size_t first, std::size_t count, std::uint8_t& next) noexcept {
    const auto pass = [&] {
      const std::size_t passed = first + next;
      next = static_cast<std::uint8_t>((next + 1) % count);
      return passed;
    };
    for (std::size_t tries = 1; tries < count && streams[first + next].credit > 0; ++tries) --streams[pass()].credit;
    return pass();
  }
};

// A history of faults that are served by whichever thread is free. Nobody waits for it: who finds it in use goes
// without.
class SharedHistory {
 public:
  template <typename F>
  void with(F&& f) noexcept {
    if (taken_.exchange(true, std::memory_order_acquire)) return;
    f(history_);
    taken_.store(false, std::memory_order_release);
  }

 private:
  std::atomic<bool> taken_{false};  // guards history_
  History history_;
};

// Those of a process: of each of its threads, or of a few that share one, where there are many.
class SharedHistories {
 public:
  [[nodiscard]] SharedHistory& of(std::uint32_t thread) noexcept { return histories_[thread % kMost]; }

 private:
  static constexpr std::size_t kMost = 16;

  std::array<SharedHistory, kMost> histories_;
};

}  // namespace comex
