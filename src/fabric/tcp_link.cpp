#include "fabric/tcp_link.h"

#include <algorithm>

namespace comex {
namespace {

constexpr unsigned kMaxLanes = 16;

// Threads are numbered as they come, so that up to lanes_ of them each have a lane of their own.
unsigned thread_number() noexcept {
  static std::atomic<unsigned> next{0};
  thread_local const unsigned mine = next.fetch_add(1, std::memory_order_relaxed);
  return mine;
}

}  // namespace

TcpLink::TcpLink(Opened opened, const LinkOptions& options)
    : ChannelLink(std::move(opened), options), transfer_timeout_(options.transfer_timeout) {}

Expected<std::unique_ptr<Link>> TcpLink::open(const Url& url, const LinkOptions& options) {
  auto opened = open_control(url, options);
  if (!opened) return std::move(opened).error();
  std::unique_ptr<TcpLink> link(new TcpLink(*std::move(opened), options));
  if (options.observe) return std::unique_ptr<Link>(std::move(link));
  const unsigned lanes = std::clamp(options.lanes, 1U, kMaxLanes);
  for (unsigned i = 0; i < lanes; ++i) {
    auto lane = open_channel(url, options, wire::Purpose::lane, &link->session_);
    if (!lane) return std::move(lane).error();
    link->lanes_.push_back(std::make_unique<TcpLane>(lane->channel->release(), link->broken_, options.max_spin));
  }
  return std::unique_ptr<Link>(std::move(link));
}

TcpLink::~TcpLink() {
  sever(Errc::disconnected);
}

// An urgent transfer takes a lane that is idle, if there is one; bulk stays on its thread's lane and out of the way.
TcpLane& TcpLink::pick_lane(Priority priority, std::uint32_t& index) noexcept {
  const auto lanes = static_cast<std::uint32_t>(lanes_.size());
  index = thread_number() % lanes;
  if (priority == Priority::urgent) {
    for (std::uint32_t i = 0; i < lanes; ++i) {
      const std::uint32_t candidate = (index + i) % lanes;
      if (lanes_[candidate]->outstanding() > 0) continue;
      index = candidate;
      break;
    }
  }
  return *lanes_[index];
}

void TcpLink::submit(Transfer& transfer) noexcept {
  transfer.begin();
  const Errc unfit = lanes_.empty() ? Errc::unsupported : transfer.check();
  if (unfit != Errc::ok) {
    transfer.finish(unfit);
    return;
  }
  transfer.deadline = Clock::now() + transfer_timeout_;
  TcpLane& lane = pick_lane(transfer.priority, transfer.lane);
  if (const Errc error = lane.submit(transfer); error != Errc::ok) sever(error);
}

void TcpLink::progress() noexcept {
  for (const auto& lane : lanes_) {
    if (const Errc error = lane->progress(); error != Errc::ok) return sever(error);
  }
}

Errc TcpLink::wait(Transfer& transfer) noexcept {
  while (!transfer.done()) {
    Errc error = lanes_[transfer.lane]->wait_a_while(transfer);
    if (error == Errc::ok && !transfer.done() && Clock::now() >= transfer.deadline) error = Errc::timeout;
    if (error != Errc::ok) sever(error);
  }
  return transfer.result();
}

void TcpLink::sever(Errc why) noexcept {
  Errc none = Errc::ok;
  broken_.compare_exchange_strong(none, why);
  shut_channel();
  for (const auto& lane : lanes_) lane->shut();
  for (const auto& lane : lanes_) lane->fail_all(broken());
}

}  // namespace comex
