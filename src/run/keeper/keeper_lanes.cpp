#include "run/keeper/keeper_lanes.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <iterator>
#include <utility>

#include "fabric/tcp_link.h"

namespace comex {

LaneOpener::LaneOpener(Pool& pool, int wake) : options_(pool.config().link), relay_(pool), wake_(wake) {}

LaneOpener::~LaneOpener() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  for (auto& [node, queue] : queues_) queue.thread.join();
}

void LaneOpener::open(Job job) {
  const std::lock_guard lock(mutex_);
  bury_dead();
  const auto [at, is_new] = queues_.try_emplace(job.node.value);
  Queue& queue = at->second;
  queue.jobs.push_back(std::move(job));
  if (is_new) queue.thread = std::thread([this, &queue] { run(queue); });
}

std::vector<LaneOpener::Result> LaneOpener::results() {
  const std::lock_guard lock(mutex_);
  return std::exchange(results_, {});
}

// REQUIRES: mutex_. A thread that is over wants it no more.
void LaneOpener::bury_dead() {
  for (auto at = queues_.begin(); at != queues_.end();) {
    if (at->second.over) at->second.thread.join();
    at = at->second.over ? queues_.erase(at) : std::next(at);
  }
}

void LaneOpener::run(Queue& queue) {
  std::unique_lock lock(mutex_);
  while (!stopping_ && !queue.jobs.empty()) {
    Job job = std::move(queue.jobs.front());
    queue.jobs.pop_front();
    lock.unlock();
    Result result = serve(std::move(job));
    lock.lock();
    results_.push_back(std::move(result));
    (void)::eventfd_write(wake_, 1);
  }
  queue.over = true;
}

Expected<void> LaneOpener::open_one(Result& result) {
  const Job& job = result.job;
  if (job.relayed) {
    auto end = relay_.open(job.node, job.link);
    if (!end) return std::move(end).error();
    result.lanes.push_back(std::move(end->socket));
    result.desks.push_back(std::move(end->memory));
    return {};
  }
  auto lane = open_lane(job.url, options_, job.session);
  if (!lane) return std::move(lane).error();
  result.lanes.push_back(*std::move(lane));
  return {};
}

LaneOpener::Result LaneOpener::serve(Job job) {
  Result result{std::move(job), {}, {}, {}};
  for (unsigned i = 0; i < result.job.lanes; ++i) {
    if (auto opened = open_one(result); !opened) {
      result.lanes.clear();
      result.desks.clear();
      result.error = std::move(opened).error();
      break;
    }
  }
  return result;
}

namespace {

// A lane that the keeper itself serves (lane_relay.h).
bool is_relayed(int lane) noexcept {
  int domain = 0;
  socklen_t size = sizeof domain;
  return ::getsockopt(lane, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain == AF_UNIX;
}

int tcp_state(int lane) noexcept {
  tcp_info info{};
  socklen_t size = sizeof info;
  return ::getsockopt(lane, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 ? info.tcpi_state : -1;
}

}  // namespace

LaneEnd begin_lane_end(int lane) noexcept {
  if (is_relayed(lane)) {
    // If the process has shut it, what comes in now is no longer to be seen; then nothing can be sent, either.
    const bool shut = ::send(lane, nullptr, 0, MSG_NOSIGNAL) != 0;
    return shut || ::shutdown(lane, SHUT_WR) != 0 ? LaneEnd::unclean : see_lane_end(lane);
  }
  const int state = tcp_state(lane);
  if (state == TCP_CLOSE_WAIT) return LaneEnd::clean;  // the node closed it
  // In any other state the process has shut it, and what comes in now is no longer to be seen.
  if (state != TCP_ESTABLISHED || ::shutdown(lane, SHUT_WR) != 0) return LaneEnd::unclean;
  return see_lane_end(lane);
}

LaneEnd see_lane_end(int lane) noexcept {
  std::array<char, 16 * 1024> replies;
  for (;;) {
    const ssize_t got = ::recv(lane, replies.data(), replies.size(), MSG_DONTWAIT);
    if (got > 0 || (got < 0 && errno == EINTR)) continue;
    if (got == 0) return LaneEnd::clean;
    if (errno == EAGAIN || errno == EWOULDBLOCK) return LaneEnd::waiting;
    // A reset is sent by a host where the connection is closed already.
    return errno == ECONNRESET ? LaneEnd::clean : LaneEnd::unclean;
  }
}

}  // namespace comex
