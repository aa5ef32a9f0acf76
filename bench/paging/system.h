// What `comex bench paging` compares: a way to run a program whose memory is larger than what it may have locally.
// Adding one is a class with a name, a create() that says why it cannot be had here, and run().
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/expected.h"
#include "bench/paging/program.h"

namespace comex::bench {

// The names under which systems appear in tables, JSON and goals.
inline constexpr std::string_view kPagingShm = "comex shm";
inline constexpr std::string_view kPagingMessage = "comex shm, messages";
inline constexpr std::string_view kPagingTcp = "comex tcp";
inline constexpr std::string_view kPagingRdma = "comex rdma";
inline constexpr std::string_view kPagingZram = "zram";
inline constexpr std::string_view kPagingDisk = "disk file";

// Not thread-safe. What it set up on the machine goes when it goes.
class PagingSystem {
 public:
  virtual ~PagingSystem() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;
  // Runs the command to its end. Whatever is on for the run only is off when this returns.
  virtual Expected<ProgramResult> run(const std::vector<std::string>& command) = 0;
  // For each run from now on: one that takes longer is ended, and the error is Errc::timeout.
  void set_limit(Millis limit) { limit_ = limit; }

 protected:
  Millis limit_ = ProgramRun{}.limit;
};

}  // namespace comex::bench
