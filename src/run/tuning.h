// Sizes that are measured over their ranges by `comex bench sensitivity`, after the COMEX paper, which calls them T, P
// and B. Nobody else sets them. 0: as usual.
#pragma once

#include <cstdint>

namespace comex {

struct Tuning {
  std::uint32_t stock = 0;     // frames that are kept at hand before more are asked for, here and in the keeper: T
  std::uint32_t prefetch = 0;  // pages that one fault brings at most, itself among them: P
  std::uint32_t buffer = 0;    // pages in the read buffer: B
};

}  // namespace comex
