// What the links whose control calls travel on a Channel have in common.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "fabric/channel.h"
#include "fabric/link.h"

namespace comex {

class ChannelLink : public Link {
 public:
  Expected<std::vector<std::byte>> call(wire::Type type, std::span<const std::byte> body) final;

 protected:
  // Opens the control connection for what the options ask: a new session, an old one, or only to look.
  static Expected<Opened> open_control(const Url& url, const LinkOptions& options);

  ChannelLink(Opened opened, const LinkOptions& options);
  // As call, with the descriptors that came along. The link is severed if the node is gone, silent or fenced us.
  Expected<Reply> exchange(wire::Type type, std::span<const std::byte> body);
  void shut_channel() noexcept { channel_->shut(); }

 private:
  std::unique_ptr<Channel> channel_;
  const Millis control_timeout_;
};

}  // namespace comex
