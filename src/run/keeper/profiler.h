// The keeper's part in `comex run --profile FILE`: what an earlier run left in the file is made ready to be played, and
// what this run does is written down: added to it, or put in its place if it did not fit.
//
// Thread safety: none; the tracer (run/keeper/tracer.h) calls it under its own lock, and is gone when it is concluded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "pager/prefetch/anchors.h"
#include "run/room.h"
#include "run/score.h"
#include "trace/fault.h"
#include "trace/profile.h"
#include "trace/ring.h"

namespace comex {

class Profiler {
 public:
  // `score`: memory that is all zeros, to put there what is to be played.
  Profiler(std::string file, std::span<std::byte> score);

  // --- what this run does; `process` is a number of the tracer's ---
  void process(std::uint32_t process, std::string_view name);
  void note(std::uint32_t process, const TraceNote& note);
  void faults(std::uint32_t process, std::span<const TraceFault> faults);

  // How well the profile went, at the end: faults that it could have known, and did.
  struct Played {
    std::uint64_t known = 0;
    std::uint64_t unknown = 0;
    bool anybody = false;  // some process was the program that it is of
    bool wanted = true;    // or else another prefetcher was: it is only to be made

    [[nodiscard]] std::uint64_t all() const { return known + unknown; }
  };
  // Writes the file, if it is to be written, and returns one line on what was done.
  std::string conclude(const Played& played);

 private:
  struct Source {
    ProfiledProcess process;
    Anchors anchors;
    std::unordered_map<std::uint32_t, std::size_t> threads;  // by id: in process.threads
  };

  [[nodiscard]] Profile made();
  // Why what was in the file is of no use any more; empty, if it is.
  [[nodiscard]] std::string misfit(const Played& played) const;
  [[nodiscard]] std::string use(const Played& played, const Profile& now) const;

  const std::string file_;
  Profile old_;
  std::string damage_;  // of what was in the file
  std::map<std::uint32_t, Source> sources_;
  std::uint64_t kept_ = 0;  // faults
};

}  // namespace comex
