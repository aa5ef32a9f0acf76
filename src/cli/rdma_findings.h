// What `comex doctor` says of RDMA.
#pragma once

#include <vector>

#include "cli/machine.h"

namespace comex {

// `needed`: a node of the pool is reached by RDMA. Otherwise nothing here keeps a program from running.
std::vector<Finding> check_rdma(bool needed);

}  // namespace comex
