#include "fabric/rdma_devices.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "fabric/rdma_library.h"

namespace comex {
namespace {

// Of ports with hundreds of them, the first ones.
constexpr int kMostGids = 32;

class OpenDevice {
 public:
  OpenDevice(const RdmaLibrary& library, ibv_device* device)
      : library_(library), context_(library.open_device(device)) {}
  ~OpenDevice() {
    if (context_ != nullptr) library_.close_device(context_);
  }
  OpenDevice(const OpenDevice&) = delete;
  OpenDevice& operator=(const OpenDevice&) = delete;
  [[nodiscard]] ibv_context* get() const { return context_; }

 private:
  const RdmaLibrary& library_;
  ibv_context* const context_;
};

std::string text_of(const ibv_gid& gid) {
  const auto* const address = reinterpret_cast<const in6_addr*>(gid.raw);
  if (IN6_IS_ADDR_UNSPECIFIED(address)) return {};
  char text[INET6_ADDRSTRLEN] = "";
  if (IN6_IS_ADDR_V4MAPPED(address)) {
    ::inet_ntop(AF_INET, gid.raw + 12, text, sizeof text);
  } else {
    ::inet_ntop(AF_INET6, gid.raw, text, sizeof text);
  }
  return text;
}

RdmaPort describe_port(const RdmaLibrary& library, ibv_context* device, std::uint8_t number) {
  RdmaPort port;
  port.number = number;
  ibv_port_attr attributes{};
  // What older callers get: the fields that are read here are among them.
  if (library.query_port(device, number, reinterpret_cast<_compat_ibv_port_attr*>(&attributes)) != 0) return port;
  port.active = attributes.state == IBV_PORT_ACTIVE;
  port.ethernet = attributes.link_layer == IBV_LINK_LAYER_ETHERNET;
  port.mtu = 128U << attributes.active_mtu;
  for (int i = 0; i < attributes.gid_tbl_len && i < kMostGids; ++i) {
    ibv_gid gid{};
    if (library.query_gid(device, number, i, &gid) != 0) break;
    port.gids.push_back(text_of(gid));
  }
  while (!port.gids.empty() && port.gids.back().empty()) port.gids.pop_back();
  return port;
}

RdmaDevice describe(const RdmaLibrary& library, ibv_device* which) {
  RdmaDevice device;
  device.name = library.get_device_name(which);
  const OpenDevice opened(library, which);
  ibv_device_attr attributes{};
  if (opened.get() == nullptr || library.query_device(opened.get(), &attributes) != 0) {
    device.refused = std::strerror(errno);
    return device;
  }
  device.queue_pairs = attributes.max_qp;
  device.regions = attributes.max_mr;
  for (std::uint8_t i = 1; i <= attributes.phys_port_cnt; ++i) {
    device.ports.push_back(describe_port(library, opened.get(), i));
  }
  return device;
}

bool read_address(const std::string& text, sa_family_t family, sockaddr_storage& address) {
  address = {};
  address.ss_family = family;
  void* const into = family == AF_INET ? static_cast<void*>(&reinterpret_cast<sockaddr_in&>(address).sin_addr)
                                       : &reinterpret_cast<sockaddr_in6&>(address).sin6_addr;
  return ::inet_pton(family, text.c_str(), into) == 1;
}

}  // namespace

Expected<std::vector<RdmaDevice>> rdma_devices() {
  auto library = rdma_library();
  if (!library) return std::move(library).error();
  std::vector<RdmaDevice> devices;
  int count = 0;
  ibv_device** const list = (*library)->get_device_list(&count);
  if (list == nullptr) return devices;
  for (int i = 0; i < count; ++i) devices.push_back(describe(**library, list[i]));
  (*library)->free_device_list(list);
  return devices;
}

Expected<sockaddr_storage> rdma_source(const Url& url, sa_family_t family) {
  const auto devices = rdma_devices();
  if (!devices) return devices.error();
  for (const RdmaDevice& device : *devices) {
    if (device.name != url.device) continue;
    for (const RdmaPort& port : device.ports) {
      if (port.number != url.device_port) continue;
      sockaddr_storage address{};
      for (std::size_t i = 0; i < port.gids.size(); ++i) {
        if ((!url.gid || *url.gid == i) && read_address(port.gids[i], family, address)) return address;
      }
    }
    return Error{Errc::unsupported,
                 fmt::format("{}: the device has no such address there; see `comex doctor`", url.text())};
  }
  return Error{Errc::unsupported, fmt::format("{}: there is no device {}; see `comex doctor`", url.text(), url.device)};
}

}  // namespace comex
