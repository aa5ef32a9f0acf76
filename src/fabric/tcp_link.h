// tcp:// and tls://: several connections to one node for pages (lane_set.h), and one for control calls.
#pragma once

#include <memory>

#include "fabric/channel_link.h"
#include "fabric/lane_link.h"

namespace comex {

class TcpLink final : public LaneLink<ChannelLink> {
 public:
  static Expected<std::unique_ptr<Link>> open(const Url& url, const LinkOptions& options);
  ~TcpLink() override { sever(Errc::disconnected); }

  // Over TCP the node checks each request: there is nothing to prepare.
  Expected<void> reach(std::span<const Extent>) override { return {}; }
  void forget(std::span<const Extent>) noexcept override {}

 private:
  using LaneLink::LaneLink;
};

// One more data connection of a session, connected and proved, as a plain socket: for another process of this host.
// Errc::unsupported over TLS, whose state cannot be handed over. Takes as long as connecting does.
Expected<Fd> open_lane(const Url& url, const LinkOptions& options, const Session& session);

}  // namespace comex
