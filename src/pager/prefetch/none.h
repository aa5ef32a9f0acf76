// Brings nothing along: for programs whose next page nobody can guess, and to compare the others with.
#pragma once

#include "pager/prefetch/prefetcher.h"

namespace comex {

class NoPrefetch final : public Prefetcher {
 public:
  Plan plan(History&, const Miss&) const noexcept override { return {}; }
};

}  // namespace comex
