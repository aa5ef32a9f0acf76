#include "fabric/tcp_link.h"

#include <fmt/format.h>

#include "fabric/tcp_lane.h"

namespace comex {

Expected<std::unique_ptr<Link>> TcpLink::open(const Url& url, const LinkOptions& options) {
  auto opened = open_control(url, options);
  if (!opened) return std::move(opened).error();
  std::unique_ptr<TcpLink> link(new TcpLink(*std::move(opened), options));
  auto added = link->add_lanes(url, options, nullptr, [&](std::unique_ptr<Stream> stream) {
    return Expected<std::unique_ptr<Lane>>(
        std::make_unique<TcpLane>(std::move(stream), link->broken_word(), options.max_spin));
  });
  if (!added) return std::move(added).error();
  return std::unique_ptr<Link>(std::move(link));
}

Expected<Fd> open_lane(const Url& url, const LinkOptions& options, const Session& session) {
  if (url.scheme != Url::Scheme::tcp) {
    return Error{Errc::unsupported, fmt::format("{}: its connections cannot be handed to other processes", url.text())};
  }
  auto lane = open_channel(url, options, wire::Purpose::lane, &session);
  if (!lane) return std::move(lane).error();
  const auto stream = lane->channel->release();
  Fd socket(::fcntl(stream->fd(), F_DUPFD_CLOEXEC, 0));
  if (!socket) return system_error("cannot keep a connection: raise the limit of open files (ulimit -n)");
  return socket;
}

}  // namespace comex
