// `comex bench paging`: one program whose memory is larger than what it may have locally, on comex and on the kernel's
// swap, in one run.
#pragma once

#include <string>
#include <vector>

#include "bench/paging/paging_figures.h"
#include "bench/steps.h"
#include "fabric/url.h"

namespace comex::bench {

// Less than this and the kernel kills the program instead of swapping: its own code has to live there too.
inline constexpr std::uint64_t kLeastPagingLocal = std::uint64_t{16} << 20;

struct PagingOptions {
  std::uint64_t set_bytes = std::uint64_t{1} << 30;
  std::uint64_t local_bytes = std::uint64_t{512} << 20;
  std::vector<Url> pool;    // nodes to use, one system each; none: two of our own, on this machine
  std::string secret_file;  // of theirs
  unsigned rounds = 3;
  double seconds = 330;  // no system begins a further round that would not fit; the first is always whole
  std::string swap_folder = "/var/tmp";  // unlike /tmp on a disk, on most machines

  void make_quick() {
    set_bytes = std::uint64_t{256} << 20;
    local_bytes = std::uint64_t{128} << 20;
    seconds = 45;
  }
};

// A system that cannot be had is skipped, one that breaks is left out from then on; both are in the figures.
// REQUIRES: this process has one thread, and an InterruptGuard lives.
Expected<PagingFigures> bench_paging(const PagingOptions& options, Steps& steps);

}  // namespace comex::bench
