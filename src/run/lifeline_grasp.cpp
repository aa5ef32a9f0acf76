// The process's side of a lifeline, apart: it is compiled into programs.
#include <sys/mman.h>

#include "base/units.h"
#include "run/lifeline.h"

namespace comex {

Errc grasp_lifeline(int end) noexcept {
  void* const page = ::mmap(nullptr, kPageSize, PROT_READ, MAP_SHARED, end, 0);
  if (page == MAP_FAILED) return Errc::io;
  if (::madvise(page, kPageSize, MADV_DONTFORK) == 0) return Errc::ok;
  ::munmap(page, kPageSize);
  return Errc::io;
}

}  // namespace comex
