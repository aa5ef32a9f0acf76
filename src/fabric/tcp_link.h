// tcp:// and tls://: several connections to one node, so that threads do not queue behind each other, and one for
// control calls. See tcp_lane.h for how a connection works.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "fabric/channel_link.h"
#include "fabric/tcp_lane.h"

namespace comex {

class TcpLink final : public ChannelLink {
 public:
  static Expected<std::unique_ptr<Link>> open(const Url& url, const LinkOptions& options);
  ~TcpLink() override;

  void submit(Transfer& transfer) noexcept override;
  void progress() noexcept override;
  Errc wait(Transfer& transfer) noexcept override;
  [[nodiscard]] Errc broken() const noexcept override { return broken_.load(std::memory_order_acquire); }
  void sever(Errc why) noexcept override;
  // Over TCP the node checks each request: there is nothing to prepare.
  Expected<void> reach(std::span<const Extent>) override { return {}; }
  void forget(std::span<const Extent>) noexcept override {}

 private:
  TcpLink(Opened opened, const LinkOptions& options);
  TcpLane& pick_lane(Priority priority, std::uint32_t& index) noexcept;

  Millis transfer_timeout_;
  std::atomic<Errc> broken_{Errc::ok};
  std::vector<std::unique_ptr<TcpLane>> lanes_;
};

}  // namespace comex
