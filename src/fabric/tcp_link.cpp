#include "fabric/tcp_link.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/thread_number.h"

namespace comex {

TcpLink::TcpLink(Opened opened, const LinkOptions& options)
    : ChannelLink(std::move(opened), options), lanes_(options.transfer_timeout) {}

Expected<std::unique_ptr<Link>> TcpLink::open(const Url& url, const LinkOptions& options) {
  auto opened = open_control(url, options);
  if (!opened) return std::move(opened).error();
  std::unique_ptr<TcpLink> link(new TcpLink(*std::move(opened), options));
  if (options.observe) return std::unique_ptr<Link>(std::move(link));
  const unsigned lanes = std::clamp(options.lanes, 1U, LaneSet::kMost);
  for (unsigned i = 0; i < lanes; ++i) {
    auto lane = open_channel(url, options, wire::Purpose::lane, &link->session_);
    if (!lane) return std::move(lane).error();
    link->owned_.push_back(
        std::make_unique<TcpLane>(lane->channel->release(), link->lanes_.broken_word(), options.max_spin));
    link->lanes_.add(*link->owned_.back());
  }
  return std::unique_ptr<Link>(std::move(link));
}

TcpLink::~TcpLink() {
  sever(Errc::disconnected);
}

void TcpLink::hang_up_if_broken() noexcept {
  if (broken() != Errc::ok) shut_channel();
}

void TcpLink::submit(Transfer& transfer) noexcept {
  lanes_.submit(transfer, thread_number());
  hang_up_if_broken();
}

void TcpLink::progress() noexcept {
  lanes_.progress();
  hang_up_if_broken();
}

Errc TcpLink::wait(Transfer& transfer) noexcept {
  const Errc result = lanes_.wait(transfer);
  hang_up_if_broken();
  return result;
}

void TcpLink::sever(Errc why) noexcept {
  lanes_.sever(why);
  shut_channel();
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
