// What `comex doctor` says of RDMA.
#pragma once

#include <vector>

#include "base/expected.h"
#include "cli/machine.h"
#include "fabric/rdma_devices.h"

namespace comex {

// `needed`: a node of the pool is reached by RDMA. Otherwise nothing here keeps a program from running.
std::vector<Finding> check_rdma(bool needed);
// The same of what rdma_devices() has found.
std::vector<Finding> judge_rdma(const Expected<std::vector<RdmaDevice>>& devices, bool needed);

}  // namespace comex
