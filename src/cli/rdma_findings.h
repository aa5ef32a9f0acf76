// What `comex doctor` says of RDMA.
#pragma once

#include <cstdint>
#include <vector>

#include "base/expected.h"
#include "cli/machine.h"
#include "fabric/rdma_devices.h"

namespace comex {

// What a device is needed for here: nothing; `comex serve`, so that programs can run without one; or for the pool.
enum class RdmaUse : std::uint8_t { none, serve, run };

std::vector<Finding> check_rdma(RdmaUse use);
// The same of what rdma_devices() has found.
std::vector<Finding> judge_rdma(const Expected<std::vector<RdmaDevice>>& devices, RdmaUse use);

}  // namespace comex
