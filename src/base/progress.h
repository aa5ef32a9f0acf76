// Progress of a long job, on stderr.
//
//   terminal:   move  [########----------]  45 %  922 MiB of 2.00 GiB  1.20 GiB/s  1.0 s left     (redrawn in place)
//   otherwise:  move: 50 %, 1.00 GiB of 2.00 GiB, 1.20 GiB/s, 0.9 s left                          (a line each 10 %)
//
// Thread safety: advance may be called from any number of threads; it is an atomic add and a look at the clock, and
// whoever finds a redraw due does it while the others pass by. The rest is for the thread that owns the object.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>

#include "base/clock.h"

namespace comex {

// Where a Progress goes, and the time it goes by. Tests replace both.
struct ProgressOutput {
  bool terminal = false;
  unsigned columns = 80;
  std::function<void(std::string_view)> write;
  std::function<Clock::time_point()> now = Clock::now;

  static ProgressOutput standard_error();
};

class Progress {
 public:
  // `total` bytes make 100 %. Nothing is shown before the first advance.
  Progress(std::string label, std::uint64_t total, ProgressOutput output = ProgressOutput::standard_error());
  // Ends the line of a bar that was left unfinished (an error, usually), so that the next message starts a new one.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void advance(std::uint64_t bytes);
  // The job is over: shows the final state, with the mean rate and the time it took.
  void finish();

 private:
  static constexpr Millis kRedrawEvery{100};  // more often flickers and costs more than it tells
  static constexpr Millis kLineEvery{500};    // a job of less than this needs one line, at its end
  static constexpr unsigned kPercentPerLine = 10;

  [[nodiscard]] unsigned percent(std::uint64_t done) const;
  [[nodiscard]] bool due(Clock::time_point now, std::uint64_t done) const;
  void draw(Clock::time_point now, std::uint64_t done, bool last);
  [[nodiscard]] std::string bar(unsigned percent, std::size_t room) const;

  const std::string label_;
  const std::uint64_t total_;
  const ProgressOutput output_;
  const Clock::time_point started_;

  // Relaxed throughout: these are counters and hints for display, nothing is published through them.
  std::atomic<std::uint64_t> done_{0};
  std::atomic<Clock::rep> next_draw_;   // not before this time
  std::atomic<unsigned> next_percent_;  // lines: nor before this percentage

  std::mutex drawing_;      // guards the two below, and that writes do not interleave
  bool line_open_ = false;  // the terminal's cursor stands behind a bar
  bool finished_ = false;
};

}  // namespace comex
