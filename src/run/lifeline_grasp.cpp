// The process's side of a lifeline, apart: it is compiled into programs.
#include <sys/mman.h>

#include "base/own_place.h"
#include "base/units.h"
#include "run/lifeline.h"

namespace comex {

void* grasp_lifeline(int end) noexcept {
  void* const page = ::mmap(OwnPlace::take(kPageSize), kPageSize, PROT_READ, MAP_SHARED, end, 0);
  if (page == MAP_FAILED) return nullptr;
  if (::madvise(page, kPageSize, MADV_DONTFORK) == 0) return page;
  ::munmap(page, kPageSize);
  return nullptr;
}

void let_go_of_lifeline(void* lifeline) noexcept {
  ::munmap(lifeline, kPageSize);
}

}  // namespace comex
