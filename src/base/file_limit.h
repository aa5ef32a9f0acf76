// How many files this process may have open.
// Thread safety: one thread at a time.
#pragma once

#include <sys/resource.h>

namespace comex {

// To all that it may have without asking for rights: each slab, process and lane is a descriptor.
inline void raise_file_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace comex
