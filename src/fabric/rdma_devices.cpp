#include "fabric/rdma_devices.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>

#include "base/read_file.h"
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

bool is_link_local(const sockaddr& address) {
  return address.sa_family == AF_INET6 &&
         IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6&>(address).sin6_addr);
}

std::string line_of(const std::filesystem::path& file) {
  std::string text = read_file(file.string()).value_or("");
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

std::vector<std::filesystem::path> entries_of(const std::filesystem::path& folder) {
  std::error_code none;
  std::vector<std::filesystem::path> entries;
  for (const auto& entry : std::filesystem::directory_iterator(folder, none)) entries.push_back(entry.path());
  return entries;
}

std::vector<sockaddr_storage> addresses_of(const std::set<std::string>& interfaces) {
  std::vector<sockaddr_storage> addresses;
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return addresses;
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> all(first, &::freeifaddrs);
  for (const ifaddrs* one = first; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || !interfaces.contains(one->ifa_name)) continue;
    const bool v4 = one->ifa_addr->sa_family == AF_INET;
    if (!v4 && one->ifa_addr->sa_family != AF_INET6) continue;
    std::memcpy(&addresses.emplace_back(), one->ifa_addr, v4 ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
  }
  return addresses;
}

// What the device itself knows by that index: RoCE's are addresses.
std::optional<sockaddr_storage> address_of(const RdmaPort& port, std::size_t gid, sa_family_t family) {
  sockaddr_storage address{};
  const bool there = gid < port.gids.size() && read_address(port.gids[gid], family, address);
  return there ? std::optional(address) : std::nullopt;
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

// A card's own are beside it, each with the number of its port (from 0); of RoCE the port also names those which are
// made of them (VLANs, bonds); Soft-RoCE has one that it sits on.
std::set<std::string> rdma_interfaces(const std::string& devices, const std::string& device, unsigned port) {
  const auto folder = std::filesystem::path(devices) / device;
  std::set<std::string> interfaces;
  for (const auto& own : entries_of(folder / "device/net")) {
    if (line_of(own / "dev_port") == std::to_string(port - 1)) interfaces.insert(own.filename().string());
  }
  for (const auto& named : entries_of(folder / "ports" / std::to_string(port) / "gid_attrs/ndevs")) {
    interfaces.insert(line_of(named));
  }
  interfaces.insert(line_of(folder / "parent"));
  interfaces.erase("");
  return interfaces;
}

std::optional<sockaddr_storage> choose_source(const std::vector<sockaddr_storage>& addresses, const sockaddr& to) {
  const auto fits = [&](const sockaddr_storage& address) {
    return address.ss_family == to.sa_family &&
           is_link_local(reinterpret_cast<const sockaddr&>(address)) == is_link_local(to);
  };
  const auto found = std::find_if(addresses.begin(), addresses.end(), fits);
  return found != addresses.end() ? std::optional(*found) : std::nullopt;
}

Expected<sockaddr_storage> rdma_source(const Url& url, const sockaddr& to) {
  const auto devices = rdma_devices();
  if (!devices) return devices.error();
  for (const RdmaDevice& device : *devices) {
    if (device.name != url.device) continue;
    for (const RdmaPort& port : device.ports) {
      if (port.number != url.device_port) continue;
      const auto address =
          url.gid ? address_of(port, *url.gid, to.sa_family)
                  : choose_source(addresses_of(rdma_interfaces("/sys/class/infiniband", device.name, port.number)), to);
      if (address) return *address;
    }
    return Error{Errc::unsupported,
                 fmt::format("{}: the device has no such address there; see `comex doctor`", url.text())};
  }
  return Error{Errc::unsupported, fmt::format("{}: there is no device {}; see `comex doctor`", url.text(), url.device)};
}

}  // namespace comex
