#include "node/rdma_door.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <spdlog/spdlog.h>

#include <cstring>

#include "fabric/socket.h"
#include "fabric/url.h"

namespace comex {
namespace {

constexpr int kBacklog = 128;
constexpr std::size_t kReason = 148;  // bytes of it that a refusal has room for

std::string text_of(const sockaddr* address) {
  char host[NI_MAXHOST] = "";
  char port[NI_MAXSERV] = "";
  const socklen_t size = address->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  getnameinfo(address, size, host, sizeof host, port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV);
  return fmt::format("{}:{}", host, port);
}

RdmaCall call_of(const rdma_conn_param& asked) {
  RdmaCall call;
  if (asked.private_data_len < sizeof call) return RdmaCall{.magic = 0};
  std::memcpy(&call, asked.private_data, sizeof call);
  return call;
}

}  // namespace

Expected<std::unique_ptr<RdmaDoor>> RdmaDoor::open(const std::string& listen) {
  auto library = rdma_library();
  if (!library) return std::move(library).error();
  std::unique_ptr<RdmaDoor> door(new RdmaDoor(**library));
  if (auto listening = door->listen(listen); !listening) return std::move(listening).error();
  return door;
}

Expected<void> RdmaDoor::listen(const std::string& where) {
  where_ = where;
  const auto address = parse_host_port(where);
  if (!address) return address.error();
  events_ = library_.create_event_channel();
  if (events_ == nullptr) {
    return Error{Errc::unsupported, "this machine has no RDMA device (no /dev/infiniband/rdma_cm)"};
  }
  ::fcntl(events_->fd, F_SETFL, O_NONBLOCK);
  auto addresses = resolve(address->host, address->port, AI_PASSIVE);
  if (!addresses) return std::move(addresses).error();
  if (library_.create_id(events_, &listener_, nullptr, RDMA_PS_TCP) != 0 ||
      library_.bind_addr(listener_, (*addresses)->ai_addr) != 0 || library_.listen(listener_, kBacklog) != 0) {
    return rdma_error(fmt::format("cannot listen on {} for RDMA", where));
  }
  port_ = ntohs(library_.get_src_port(listener_));
  return {};
}

RdmaDoor::~RdmaDoor() {
  if (listener_ != nullptr) library_.destroy_id(listener_);
  if (events_ != nullptr) library_.destroy_event_channel(events_);
}

void RdmaDoor::serve(Ledger& ledger, const Take& take) {
  rdma_cm_event* event = nullptr;
  while (library_.get_cm_event(events_, &event) == 0) {
    rdma_cm_id* const id = event->id;
    rdma_cm_id* refused = nullptr;
    const bool gone = id == listener_ && event->event == RDMA_CM_EVENT_DEVICE_REMOVAL;
    if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
      if (auto in = let_in(id, event->param.conn, ledger, take); !in) {
        spdlog::warn("{} may not come in by RDMA: {}", text_of(&id->route.addr.dst_addr), in.error().message);
        const std::string why = in.error().message.substr(0, kReason);
        library_.reject(id, why.c_str(), static_cast<std::uint8_t>(why.size()));
        refused = id;
      }
    } else if (event->event != RDMA_CM_EVENT_ESTABLISHED && id->context != nullptr) {
      static_cast<RdmaEndpoint*>(id->context)->cut();  // whoever has it notices
    }
    library_.ack_cm_event(event);
    if (refused != nullptr) library_.destroy_id(refused);
    if (gone) device_gone();
  }
}

// Not listened on again when there is such a device anew: librdmacm closes the old one as soon as it is asked for the
// new, and clients' memory is still registered with it.
void RdmaDoor::device_gone() {
  spdlog::error("the RDMA device of {} has been removed: nobody comes in there until this node is started again",
                where_);
  library_.destroy_id(listener_);
  listener_ = nullptr;
}

Expected<void> RdmaDoor::let_in(rdma_cm_id* id, const rdma_conn_param& asked, Ledger& ledger, const Take& take) {
  id->context = nullptr;  // it has that of the listener
  const RdmaCall call = call_of(asked);
  if (call.magic != RdmaCall::kMagic) return Error{Errc::version, "it does not speak comex's protocol"};
  std::shared_ptr<RdmaDomain> domain;
  if (call.client != 0) {
    const auto client = ledger.find(ClientId{call.client});
    if (!client || client->medium != Medium::rdma) return Error{Errc::fenced, "the session has ended"};
    domain = static_cast<RdmaSlabs&>(*client->family->access).domain();
  } else {
    auto& lobby = lobbies_[id->verbs];
    if (!lobby) lobby = std::make_shared<RdmaDomain>(library_);
    domain = lobby;
  }
  const std::uint32_t buffers = call.client != 0 ? RdmaStream::kLaneBuffers : RdmaStream::kControlBuffers;
  auto endpoint = RdmaEndpoint::adopt(id, std::move(domain), {buffers, buffers});
  if (!endpoint) return std::move(endpoint).error();
  auto stream = RdmaStream::make(*endpoint, buffers);
  if (!stream) {
    (*endpoint)->disown();
    return std::move(stream).error();
  }
  if (auto accepted = (*endpoint)->accept(asked); !accepted) {
    (*endpoint)->disown();
    return accepted;
  }
  Arrival arrival;
  arrival.medium = Medium::rdma;
  arrival.peer = text_of(&id->route.addr.dst_addr);
  arrival.access = std::make_shared<RdmaSlabs>(library_, id->verbs);
  take(*std::move(stream), std::move(arrival));
  return {};
}

Expected<void> open_lane(Stream& stream, const Client& client) {
  RdmaEndpoint& endpoint = static_cast<RdmaStream&>(stream).endpoint();
  if (&endpoint.domain() != static_cast<RdmaSlabs&>(*client.family->access).domain().get()) {
    return Error{Errc::denied, "the connection was made for another client"};
  }
  return endpoint.open();
}

}  // namespace comex
