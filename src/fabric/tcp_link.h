// tcp:// and tls://: several connections to one node for pages (lane_set.h), and one for control calls.
#pragma once

#include <memory>
#include <vector>

#include "fabric/channel_link.h"
#include "fabric/lane_set.h"
#include "fabric/tcp_lane.h"

namespace comex {

class TcpLink final : public ChannelLink {
 public:
  static Expected<std::unique_ptr<Link>> open(const Url& url, const LinkOptions& options);
  ~TcpLink() override;

  void submit(Transfer& transfer) noexcept override;
  void progress() noexcept override;
  Errc wait(Transfer& transfer) noexcept override;
  [[nodiscard]] Errc broken() const noexcept override { return lanes_.broken(); }
  void sever(Errc why) noexcept override;
  // Over TCP the node checks each request: there is nothing to prepare.
  Expected<void> reach(std::span<const Extent>) override { return {}; }
  void forget(std::span<const Extent>) noexcept override {}

 private:
  TcpLink(Opened opened, const LinkOptions& options);
  // Lanes that failed take the control connection with them: whoever waits there hears of it at once.
  void hang_up_if_broken() noexcept;

  std::vector<std::unique_ptr<TcpLane>> owned_;
  LaneSet lanes_;
};

// One more data connection of a session, connected and proved, as a plain socket: for another process of this host.
// Errc::unsupported over TLS, whose state cannot be handed over. Takes as long as connecting does.
Expected<Fd> open_lane(const Url& url, const LinkOptions& options, const Session& session);

}  // namespace comex
