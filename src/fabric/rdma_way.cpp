#include "fabric/rdma_way.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/read_file.h"
#include "fabric/rdma_devices.h"
#include "fabric/rdma_library.h"
#include "fabric/socket.h"

namespace comex {
namespace {

constexpr int kPatienceMs = 2000;

// Without an event channel: each call returns when it is done.
class Id {
 public:
  explicit Id(const RdmaLibrary& library) : library_(library) {
    if (library_.create_id(nullptr, &id_, nullptr, RDMA_PS_TCP) != 0) id_ = nullptr;
  }
  ~Id() {
    if (id_ != nullptr) library_.destroy_id(id_);
  }
  Id(const Id&) = delete;
  Id& operator=(const Id&) = delete;
  [[nodiscard]] rdma_cm_id* get() const { return id_; }

 private:
  const RdmaLibrary& library_;
  rdma_cm_id* id_ = nullptr;
};

std::optional<std::uint8_t> gid_of(const RdmaLibrary& library, const rdma_cm_id& id, const std::string& device) {
  ibv_port_attr port{};
  // What older callers get: the fields that are read here are among them.
  if (library.query_port(id.verbs, id.port_num, reinterpret_cast<_compat_ibv_port_attr*>(&port)) != 0) return {};
  if (port.link_layer != IBV_LINK_LAYER_ETHERNET) return {};
  const std::string types = fmt::format("/sys/class/infiniband/{}/ports/{}/gid_attrs/types/", device, id.port_num);
  std::vector<RdmaGidType> found;
  for (int i = 0; i < std::min<int>(port.gid_tbl_len, UINT8_MAX); ++i) {
    ibv_gid gid{};
    if (library.query_gid(id.verbs, id.port_num, i, &gid) != 0) break;
    if (std::memcmp(gid.raw, id.route.addr.addr.ibaddr.sgid.raw, sizeof gid.raw) != 0) continue;
    found.push_back({static_cast<std::uint8_t>(i), read_file(types + std::to_string(i)).value_or("")});
  }
  if (found.empty()) return {};
  return choose_gid(found);
}

Expected<RdmaWay> way_of(const RdmaLibrary& library, const rdma_cm_id& id, const Url& url) {
  if (id.verbs == nullptr) return Error{Errc::unsupported, fmt::format("no RDMA device leads to {}", url.text())};
  RdmaWay way{library.get_device_name(id.verbs->device), id.port_num, {}};
  way.gid = gid_of(library, id, way.device);
  return way;
}

}  // namespace

std::uint8_t choose_gid(const std::vector<RdmaGidType>& types) {
  const auto second =
      std::find_if(types.begin(), types.end(), [](const auto& one) { return one.type.starts_with("RoCE v2"); });
  return second != types.end() ? second->index : types.front().index;
}

Expected<RdmaWay> rdma_way_to(const Url& url) {
  const auto library = rdma_library();
  if (!library) return library.error();
  const auto addresses = resolve(url.host, url.port, 0);
  if (!addresses) return addresses.error();
  Error last{Errc::disconnected, "no address"};
  for (const addrinfo* info = addresses->get(); info != nullptr; info = info->ai_next) {
    const Id id(**library);
    if (id.get() == nullptr) return rdma_error("cannot look for an RDMA connection");
    sockaddr_storage from{};
    if (!url.device.empty()) {
      const auto source = rdma_source(url, *info->ai_addr);
      if (!source) return source.error();
      from = *source;
    }
    auto* const source = url.device.empty() ? nullptr : reinterpret_cast<sockaddr*>(&from);
    if ((*library)->resolve_addr(id.get(), source, info->ai_addr, kPatienceMs) == 0) {
      return way_of(**library, *id.get(), url);
    }
    last = rdma_error(fmt::format("cannot reach {}", url.text()));
  }
  return last;
}

Expected<std::optional<RdmaWay>> rdma_way_at(const Url& url) {
  const auto library = rdma_library();
  if (!library) return library.error();
  const auto addresses = resolve(url.host, 0, 0);
  if (!addresses) return addresses.error();
  for (const addrinfo* info = addresses->get(); info != nullptr; info = info->ai_next) {
    const Id id(**library);
    if (id.get() == nullptr) return rdma_error("cannot look for an RDMA device");
    if ((*library)->bind_addr(id.get(), info->ai_addr) != 0) continue;  // it is another machine's
    auto way = way_of(**library, *id.get(), url);
    if (!way) return way.error();
    return std::optional(*std::move(way));
  }
  return std::optional<RdmaWay>();
}

}  // namespace comex
