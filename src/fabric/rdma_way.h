// By which devices of this machine a connection to a node goes: for those who measure the devices with other programs
// and have to tell them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/expected.h"
#include "fabric/url.h"

namespace comex {

// What -d, -i and -x are to the programs of perftest.
struct RdmaWay {
  std::string device;
  std::uint8_t port = 1;
  std::optional<std::uint8_t> gid;  // its index; InfiniBand needs none
};

// As a link to the node chooses it. Asks the connection manager, for up to a few seconds.
Expected<RdmaWay> rdma_way_to(const Url& url);
// The device that has the node's address: nothing if that is not an address of this machine.
Expected<std::optional<RdmaWay>> rdma_way_at(const Url& url);

// --- how it is chosen ---
// Of those indices whose types /sys/class/infiniband/DEVICE/ports/N/gid_attrs/types tells ("RoCE v2"), the one that the
// connection manager uses: an address often is there once for each type. REQUIRES: types is not empty.
struct RdmaGidType {
  std::uint8_t index = 0;
  std::string type;
};
std::uint8_t choose_gid(const std::vector<RdmaGidType>& types);

}  // namespace comex
