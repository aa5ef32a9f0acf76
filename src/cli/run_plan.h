// How much memory a program under `comex run` has where: the sums behind --local, --hard and their "auto".
//
//   available  |---------------------------------------------------------|
//   spare      |-------------------------------------------|  reserve    |   see node/host_memory.h
//   local      |------------|                                                --local; auto: all that is spare
//   hard       |---------------------------------|                           --hard; auto: half way from local to all
//
// With no pool the far memory is this machine's as well: auto keeps one half of what is spare and lends the other.
//
// Thread safety: pure functions.
#pragma once

#include <cstdint>

#include "base/expected.h"
#include "cli/config.h"
#include "node/host_memory.h"

namespace comex {

struct RunPlan {
  static constexpr std::uint64_t kLeastLocal = std::uint64_t{16} << 20;

  std::uint64_t local = 0;       // bytes a program may keep here
  std::uint64_t hard = 0;        // bytes at which it is stopped if the pool takes no more
  std::uint64_t own_memory = 0;  // bytes that a node of our own lends; 0: there is a pool
};

// Errc::invalid, with what to change, if it cannot be done.
Expected<RunPlan> plan_run(const RunSettings& settings, const HostMemory& host, bool own_node);

}  // namespace comex
