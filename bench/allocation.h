// How fast the client hands out frames that it has at hand: Pool::take, which calls no node.
#pragma once

#include <vector>

#include "bench/figures.h"
#include "fabric/connect.h"

namespace comex::bench {

Expected<Allocation> measure_allocation(const std::vector<Url>& nodes, const LinkOptions& link);

}  // namespace comex::bench
