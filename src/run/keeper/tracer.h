// Writes the faults of a program to a file: empties the rings of its processes (trace/ring.h), and says in the file
// what it found (trace/encoder.h). Tells a profiler, too, if there is one.
//
// Threads: one, which looks at the rings many times a second. Thread safety: finish() by any thread.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "run/keeper/profiler.h"
#include "run/room.h"
#include "trace/encoder.h"
#include "trace/ring.h"

namespace comex {

class Tracer {
 public:
  // REQUIRES: all of them outlive this. Whatever was in the file is gone; there may be none. The rings begin in
  // `memory`, a file, at Room::rings_at().
  Tracer(Room& room, std::span<TraceRing> rings, const Fd& memory, const Fd& file, const TraceHeader& header,
         Profiler* profiler = nullptr);
  ~Tracer();
  Tracer(const Tracer&) = delete;
  Tracer& operator=(const Tracer&) = delete;

  // Takes all there is of a process that has ended, before its account is closed, and empties the ring for the next.
  void finish(std::size_t account);

 private:
  struct Source {
    std::uint32_t number = 0;        // of its process in the file; 0: none yet
    Clock::time_point unfinished{};  // since when a slot is; none: not
  };

  void run();
  void look();
  void drain(std::size_t account, bool ended);
  // Whether the next slot, which is not finished, is not to be waited for any longer.
  static bool hopeless(Source& source, bool ended);
  void begin(std::size_t account, std::uint64_t time, const char* name);
  // Of the process of this account, in batch_.
  void tell_faults(std::size_t account);
  void write();
  [[nodiscard]] std::uint64_t now() const;

  Room& room_;
  const std::span<TraceRing> rings_;
  const Fd& memory_;
  const Fd& file_;
  Profiler* const profiler_;

  std::mutex mutex_;  // guards all below
  std::condition_variable turn_;
  bool closing_ = false;
  bool failed_ = false;  // the file takes nothing any more
  std::uint32_t processes_ = 0;
  TraceEncoder encoder_;
  std::vector<Source> sources_;
  std::vector<TraceFault> batch_;
  std::thread thread_;
};

}  // namespace comex
