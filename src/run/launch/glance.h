// A glance at the pool before a program begins. Most programs never come near their budget, and to open the pool as the
// keeper does takes longer than they may wait. What is not seen at a glance, the keeper looks for.
#pragma once

#include "pool/pool.h"

namespace comex {

// Whether as many nodes as there are to be copies, which do not fail together, are there now, know the secret and have
// memory to lend. False: it may be so all the same. Asks nobody for the address of a name, and takes no node that is
// not reached by TCP or a Unix socket; waits for a few milliseconds at most.
bool seen_at_a_glance(const PoolConfig& pool);

}  // namespace comex
