#include "fabric/channel_link.h"

#include <utility>

namespace comex {

Expected<Opened> ChannelLink::open_control(const Url& url, const LinkOptions& options) {
  if (options.observe) return open_channel(url, options, wire::Purpose::observe, nullptr);
  if (options.resume) return open_channel(url, options, wire::Purpose::resume, &*options.resume);
  return open_channel(url, options, wire::Purpose::begin, nullptr);
}

ChannelLink::ChannelLink(Opened opened, const LinkOptions& options)
    : channel_(std::move(opened.channel)), control_timeout_(options.control_timeout) {
  session_ = opened.session;
  node_ = opened.node;
}

Expected<std::vector<std::byte>> ChannelLink::call(wire::Type type, std::span<const std::byte> body) {
  auto reply = exchange(type, body);
  if (!reply) return std::move(reply).error();
  return std::move(reply->body);
}

Expected<Reply> ChannelLink::exchange(wire::Type type, std::span<const std::byte> body) {
  if (const Errc why = broken(); why != Errc::ok) return Error{why, std::string(to_string(why))};
  auto reply = channel_->call(type, body, Deadline(control_timeout_));
  if (!reply) {
    const Errc code = reply.error().code;
    if (code == Errc::timeout || code == Errc::disconnected || code == Errc::fenced) sever(code);
  }
  return reply;
}

}  // namespace comex
