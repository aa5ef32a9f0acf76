// tcp:// and tls://: several connections to one node, so that threads do not queue behind each other, and one for
// control calls. See tcp_lane.h for how a connection works.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "fabric/channel.h"
#include "fabric/link.h"
#include "fabric/tcp_lane.h"

namespace comex {

class TcpLink final : public Link {
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
  Expected<std::vector<std::byte>> call(wire::Type type, std::span<const std::byte> body) override;

 private:
  TcpLink(Opened opened, const LinkOptions& options);
  TcpLane& pick_lane(Priority priority, std::uint32_t& index) noexcept;

  std::unique_ptr<Channel> channel_;
  Millis control_timeout_;
  Millis transfer_timeout_;
  std::atomic<Errc> broken_{Errc::ok};
  std::vector<std::unique_ptr<TcpLane>> lanes_;
};

}  // namespace comex
