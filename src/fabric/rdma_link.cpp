#include "fabric/rdma_link.h"

#include <algorithm>

#include "fabric/rdma_lane.h"
#include "fabric/rdma_library.h"
#include "fabric/socket.h"

namespace comex {
namespace {

// Than over a socket: what is waited for is done by a device, which takes no core of ours, or hardly any.
constexpr int kSpinLonger = 10;

// To one of the node's addresses.
Expected<std::unique_ptr<Stream>> open_stream_to(sockaddr& address, const Url& url, const LinkOptions& options,
                                                 std::shared_ptr<RdmaDomain> domain, ClientId client,
                                                 const Deadline& deadline) {
  const bool lane = client != ClientId{};
  const std::uint32_t buffers = lane ? RdmaStream::kLaneBuffers : RdmaStream::kControlBuffers;
  const RdmaEndpoint::Shape shape{buffers + (lane ? RdmaLane::kPieces : 0), buffers, lane ? RdmaLane::kPlaces : 1};
  const Millis timeout = lane ? options.transfer_timeout : options.control_timeout;
  auto endpoint = RdmaEndpoint::reach(url, address, std::move(domain), shape, timeout, deadline);
  if (!endpoint) return std::move(endpoint).error();
  auto stream = RdmaStream::make(*endpoint, buffers);
  if (!stream) return std::move(stream).error();
  RdmaCall call;
  call.client = client.value;
  if (auto connected = (*endpoint)->connect(call, deadline); !connected) return std::move(connected).error();
  return std::unique_ptr<Stream>(*std::move(stream));
}

}  // namespace

Expected<std::unique_ptr<Stream>> open_rdma_stream(const Url& url, const LinkOptions& options,
                                                   const std::shared_ptr<RdmaDomain>& domain, ClientId client,
                                                   const Deadline& deadline) {
  auto addresses = resolve(url.host, url.port, 0);
  if (!addresses) return std::move(addresses).error();
  Error last{Errc::disconnected, "no address"};
  for (const addrinfo* info = addresses->get(); info != nullptr; info = info->ai_next) {
    auto stream = open_stream_to(*info->ai_addr, url, options, domain, client, deadline);
    if (stream) return stream;
    last = std::move(stream).error();
  }
  return last;
}

RdmaLink::RdmaLink(Opened opened, const LinkOptions& options, std::shared_ptr<RdmaDomain> domain)
    : LaneLink(std::move(opened), options),
      observes_(options.observe),
      keys_(slabs(), node_.slab_order),
      local_(std::move(domain)) {}

Expected<std::unique_ptr<Link>> RdmaLink::open(const Url& url, const LinkOptions& options) {
  auto library = rdma_library();  // first: loading it is no part of connecting
  if (!library) return std::move(library).error();
  auto opened = open_control(url, options);
  if (!opened) return std::move(opened).error();
  const auto domain = std::make_shared<RdmaDomain>(**library);
  std::unique_ptr<RdmaLink> link(new RdmaLink(*std::move(opened), options, domain));
  auto added = link->add_lanes(url, options, domain, [&](std::unique_ptr<Stream> stream) {
    // open_channel() makes no other stream for this scheme.
    std::unique_ptr<RdmaStream> own(static_cast<RdmaStream*>(stream.release()));
    return RdmaLane::make(std::move(own), link->keys_, link->local_, link->broken_word(),
                          kSpinLonger * options.max_spin);
  });
  if (!added) return std::move(added).error();
  return std::unique_ptr<Link>(std::move(link));
}

void RdmaLink::submit(Transfer& transfer) noexcept {
  const bool sensible = transfer.check() == Errc::ok;  // if not, the lanes say so
  const bool held = std::all_of(transfer.segments.begin(), transfer.segments.end(),
                                [&](const Segment& segment) { return keys_.holds(segment.first, segment.count); });
  if (sensible && !held && broken() == Errc::ok) {
    transfer.begin();
    transfer.finish(Errc::denied);
    return;
  }
  LaneLink::submit(transfer);
}

Expected<void> RdmaLink::enlist(std::span<std::byte> memory) {
  if (observes_) return {};  // it has no lanes
  return local_.add(memory);
}

Expected<void> RdmaLink::open_slabs(std::span<const std::uint32_t> slabs) {
  const wire::Map request{{slabs.begin(), slabs.end()}};
  auto reply = exchange(wire::Type::map, wire::encode(request));
  if (!reply) return std::move(reply).error();
  const auto keys = wire::decode<wire::MapReply>(reply->body);
  if (!keys || keys->keys.size() != slabs.size()) return Error{Errc::version, "the node's reply is malformed"};
  for (std::size_t i = 0; i < slabs.size(); ++i) keys_.open(slabs[i], keys->keys[i]);
  return {};
}

}  // namespace comex
