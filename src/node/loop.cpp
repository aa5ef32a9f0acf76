#include "node/loop.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <array>
#include <utility>

namespace comex {

Loop::Loop(Nanos max_spin, Millis tick, Hooks hooks) : spin_(max_spin), tick_(tick), hooks_(std::move(hooks)) {}

Expected<std::unique_ptr<Loop>> Loop::start(Nanos max_spin, Millis tick, Hooks hooks) {
  std::unique_ptr<Loop> loop(new Loop(max_spin, tick, std::move(hooks)));
  loop->epoll_ = Fd(epoll_create1(EPOLL_CLOEXEC));
  loop->wake_ = Fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!loop->epoll_ || !loop->wake_) return system_error("cannot set up epoll");
  loop->watch(loop->wake_.get(), EPOLLIN, EPOLL_CTL_ADD);
  for (const auto& [fd, handler] : loop->hooks_.watched) loop->watch(fd, EPOLLIN, EPOLL_CTL_ADD);
  loop->thread_ = std::thread([raw = loop.get()] { raw->run(); });
  return loop;
}

Loop::~Loop() {
  stopping_.store(true);
  if (wake_) eventfd_write(wake_.get(), 1);
  if (thread_.joinable()) thread_.join();
}

void Loop::adopt(std::unique_ptr<Peer> peer) {
  {
    const std::lock_guard lock(inbox_mutex_);
    inbox_.push_back(std::move(peer));
  }
  peer_count_.fetch_add(1, std::memory_order_relaxed);
  eventfd_write(wake_.get(), 1);
}

bool Loop::drop_longest(const std::function<std::optional<Clock::time_point>(const Peer&)>& since) {
  auto longest = peers_.end();
  std::optional<Clock::time_point> earliest;
  for (auto at = peers_.begin(); at != peers_.end(); ++at) {
    const auto when = since(*at->second.peer);
    if (!when || (earliest && *when >= *earliest)) continue;
    longest = at;
    earliest = when;
  }
  if (longest == peers_.end()) return false;
  peers_.erase(longest);  // closing the descriptor takes it out of epoll
  peer_count_.fetch_sub(1, std::memory_order_relaxed);
  return true;
}

void Loop::run() {
  while (!stopping_.load()) {
    const auto start = Clock::now();
    // Spinning is for peers that were busy a moment ago; the policy forgets about it when they are not.
    const bool busy = !peers_.empty() && spin_.spin([this] { return handle_ready(0); });
    if (!busy) {
      const bool idle = peers_.empty() && !hooks_.tick;
      handle_ready(hurry_ || !again_.empty() ? 0 : idle ? -1 : Deadline::at(next_tick_).remaining_ms());
    }
    spin_.observe(Clock::now() - start);
    step_again();
    if (hurry_ || Clock::now() >= next_tick_) tend();
  }
  peers_.clear();
}

bool Loop::handle_ready(int timeout_ms) {
  std::array<epoll_event, 64> events;
  const int ready = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), timeout_ms);
  for (int i = 0; i < ready; ++i) {
    const int fd = events[static_cast<std::size_t>(i)].data.fd;
    if (fd == wake_.get()) {
      take_in();
    } else if (const auto found = peers_.find(fd); found != peers_.end()) {
      step(*found->second.peer);
    } else {
      for (const auto& [watched, handler] : hooks_.watched) {
        if (watched == fd) handler(*this);
      }
    }
  }
  return ready > 0;
}

bool Loop::take_in() {
  eventfd_t ignored = 0;
  eventfd_read(wake_.get(), &ignored);
  std::vector<std::unique_ptr<Peer>> arrived;
  {
    const std::lock_guard lock(inbox_mutex_);
    arrived.swap(inbox_);
  }
  for (auto& peer : arrived) enter(std::move(peer));
  return !arrived.empty();
}

void Loop::admit(std::unique_ptr<Peer> peer) {
  peer_count_.fetch_add(1, std::memory_order_relaxed);
  enter(std::move(peer));
}

void Loop::enter(std::unique_ptr<Peer> peer) {
  const int fd = peer->fd();
  watch(fd, EPOLLIN, EPOLL_CTL_ADD);
  Peer& there = *peer;
  peers_[fd] = Entry{std::move(peer), Peer::Want::read};
  step(there);  // bytes may be waiting inside the stream (TLS), where epoll does not see them
}

void Loop::step(Peer& peer) {
  const int fd = peer.fd();
  const Peer::Want want = peer.step();
  Entry& entry = peers_[fd];
  if (want == Peer::Want::close || want == Peer::Want::hand_over) {
    epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
    std::unique_ptr<Peer> gone = std::move(entry.peer);
    peers_.erase(fd);
    peer_count_.fetch_sub(1, std::memory_order_relaxed);
    if (want == Peer::Want::hand_over) hooks_.hand_over(*this, std::move(gone));
  } else if (want == Peer::Want::again) {
    again_.push_back(fd);
  } else if (want != entry.want) {
    entry.want = want;
    watch(fd, want == Peer::Want::write ? EPOLLOUT : EPOLLIN, EPOLL_CTL_MOD);
  }
}

void Loop::step_again() {
  for (const int fd : std::exchange(again_, {})) {
    if (const auto found = peers_.find(fd); found != peers_.end()) step(*found->second.peer);
  }
}

void Loop::tend() {
  hurry_ = hooks_.tick && hooks_.tick();
  const auto now = Clock::now();
  if (now < next_tick_) return;
  next_tick_ = now + tick_;
  std::erase_if(peers_, [&](const auto& entry) {
    if (!entry.second.peer->overdue(now)) return false;
    peer_count_.fetch_sub(1, std::memory_order_relaxed);
    return true;  // closing the descriptor takes it out of epoll
  });
}

void Loop::watch(int fd, std::uint32_t events, int operation) {
  epoll_event event{};
  event.events = events;
  event.data.fd = fd;
  epoll_ctl(epoll_.get(), operation, fd, &event);
}

}  // namespace comex
