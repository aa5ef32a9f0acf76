// The RDMA devices of this machine: for `comex doctor`, and for those who choose one.
#pragma once

#include <netinet/in.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/expected.h"
#include "fabric/url.h"

namespace comex {

struct RdmaPort {
  std::uint8_t number = 1;
  bool active = false;
  bool ethernet = false;          // RoCE; otherwise InfiniBand
  unsigned mtu = 0;               // bytes
  std::vector<std::string> gids;  // by index; empty: there is none
};

struct RdmaDevice {
  std::string name;
  std::string refused;  // why it cannot be opened; empty: it can
  int queue_pairs = 0;  // at most
  int regions = 0;      // of memory, at most
  std::vector<RdmaPort> ports;
};

// Errc::unsupported if there is no rdma-core.
Expected<std::vector<RdmaDevice>> rdma_devices();

// The address of this machine to connect from, as url.device, url.device_port and url.gid say, to go to an address of
// that family. REQUIRES: url.device is set.
Expected<sockaddr_storage> rdma_source(const Url& url, sa_family_t family);

}  // namespace comex
