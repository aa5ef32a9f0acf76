#include "fabric/rdma_link.h"

#include <algorithm>

#include "base/thread_number.h"

namespace comex {

Expected<std::unique_ptr<Stream>> open_rdma_stream(const Url& url, const LinkOptions& options,
                                                   std::shared_ptr<RdmaDomain> domain, ClientId client,
                                                   const Deadline& deadline) {
  const bool lane = client != ClientId{};
  const std::uint32_t buffers = lane ? RdmaStream::kLaneBuffers : RdmaStream::kControlBuffers;
  const RdmaEndpoint::Shape shape{buffers + (lane ? RdmaLane::kPieces : 0), buffers};
  const Millis timeout = lane ? options.transfer_timeout : options.control_timeout;
  auto endpoint = RdmaEndpoint::reach(url, std::move(domain), shape, timeout, deadline);
  if (!endpoint) return std::move(endpoint).error();
  auto stream = RdmaStream::make(*endpoint, buffers);
  if (!stream) return std::move(stream).error();
  RdmaCall call;
  call.client = client.value;
  if (auto connected = (*endpoint)->connect(call, deadline); !connected) return std::move(connected).error();
  return std::unique_ptr<Stream>(*std::move(stream));
}

RdmaLink::RdmaLink(Opened opened, const LinkOptions& options)
    : SlabLink(std::move(opened), options), keys_(slabs(), node_.slab_order), lanes_(options.transfer_timeout) {}

Expected<std::unique_ptr<Link>> RdmaLink::open(const Url& url, const LinkOptions& options) {
  auto opened = open_control(url, options);
  if (!opened) return std::move(opened).error();
  std::unique_ptr<RdmaLink> link(new RdmaLink(*std::move(opened), options));
  if (options.observe) return std::unique_ptr<Link>(std::move(link));
  auto library = rdma_library();
  if (!library) return std::move(library).error();
  const auto domain = std::make_shared<RdmaDomain>(**library);
  const unsigned lanes = std::clamp(options.lanes, 1U, LaneSet::kMost);
  for (unsigned i = 0; i < lanes; ++i) {
    if (auto added = link->add_lane(url, options, domain); !added) return std::move(added).error();
  }
  return std::unique_ptr<Link>(std::move(link));
}

Expected<void> RdmaLink::add_lane(const Url& url, const LinkOptions& options,
                                  const std::shared_ptr<RdmaDomain>& domain) {
  auto opened = open_channel(url, options, wire::Purpose::lane, &session_, domain);
  if (!opened) return std::move(opened).error();
  // open_channel() makes no other stream for this scheme.
  std::unique_ptr<RdmaStream> stream(static_cast<RdmaStream*>(opened->channel->release().release()));
  auto lane = RdmaLane::make(std::move(stream), keys_, lanes_.broken_word(), options.max_spin);
  if (!lane) return std::move(lane).error();
  lanes_.add(**lane);
  owned_.push_back(*std::move(lane));
  return {};
}

RdmaLink::~RdmaLink() {
  sever(Errc::disconnected);
}

void RdmaLink::hang_up_if_broken() noexcept {
  if (broken() != Errc::ok) shut_channel();
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
  lanes_.submit(transfer, thread_number());
  hang_up_if_broken();
}

void RdmaLink::progress() noexcept {
  lanes_.progress();
  hang_up_if_broken();
}

Errc RdmaLink::wait(Transfer& transfer) noexcept {
  const Errc result = lanes_.wait(transfer);
  hang_up_if_broken();
  return result;
}

void RdmaLink::sever(Errc why) noexcept {
  lanes_.sever(why);
  shut_channel();
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
