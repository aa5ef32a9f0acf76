// The RDMA devices of this machine: for `comex doctor`, and for those who choose one.
#pragma once

#include <netinet/in.h>

#include <cstdint>
#include <optional>
#include <set>
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

// The address of this machine to connect from, as url.device, url.device_port and url.gid say, to go to that one.
// REQUIRES: url.device is set.
Expected<sockaddr_storage> rdma_source(const Url& url, const sockaddr& to);

// --- how it is chosen ---
// The network interfaces of a device's port; `devices` is what /sys/class/infiniband is.
std::set<std::string> rdma_interfaces(const std::string& devices, const std::string& device, unsigned port);
// The first of them from which that one can be reached: of the same family, link-local if and only if it is.
std::optional<sockaddr_storage> choose_source(const std::vector<sockaddr_storage>& addresses, const sockaddr& to);

}  // namespace comex
