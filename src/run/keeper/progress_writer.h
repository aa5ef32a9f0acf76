// Writes down how far the making of copies and the moving of pages are, for `comex status`.
//
// Thread safety: none; belongs to the keeper's main thread.
#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "run/keeper/keeper_server.h"
#include "run/run_progress.h"

namespace comex {

class ProgressWriter {
 public:
  ProgressWriter(RunProgress& progress, const std::string& name, std::uint32_t copies, Code code = {});

  // `nodes`: those of the pool.
  void write(const KeeperStatus& status, const std::vector<MemberStatus>& nodes, Clock::time_point now);

 private:
  RunProgress& progress_;
  std::uint64_t mended_before_ = 0;  // when there was last nothing to do
  std::uint64_t moved_before_ = 0;
  std::uint64_t done_ = 0;  // of both, at
  Clock::time_point since_{};
};

}  // namespace comex
