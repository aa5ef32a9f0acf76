#include "bench/peers/bare_tcp_far.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>
#include <thread>
#include <vector>

#include "base/clock.h"

namespace comex::bench::bare {

namespace {

constexpr Millis kConnectTimeout{3000};

// Blocking, and with no option set but the one everybody sets.
void make_bare(int fd) {
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) & ~O_NONBLOCK);
}

// The far side's pages: as many as the measured systems hold, and chosen as at random, so that what is compared is the
// way there and not whose pages happen to be in the cache.
class FarSet {
 public:
  FarSet() {
    static std::vector<std::byte> pages(kSetBytes, std::byte{0x5a});
    pages_ = pages.data();
  }
  // A place for `bytes`, up to kChunk.
  std::byte* any() {
    random_ = random_ * 6364136223846793005ULL + 1442695040888963407ULL;
    return pages_ + (random_ >> 33) % (kSetBytes / kChunk) * kChunk;
  }

 private:
  static constexpr std::size_t kSetBytes = std::size_t{256} << 20;
  std::byte* pages_;
  std::uint64_t random_ = 1;
};

void answer(int fd, FarSet& set) {
  SpinPolicy spin(max_spin());
  Request request;
  while (receive_spinning(fd, reinterpret_cast<std::byte*>(&request), sizeof request, spin)) {
    const std::size_t bytes = std::size_t{request.pages} * kPageSize;
    if (bytes > kChunk) return;
    if (request.write == 0) {
      if (!send_all(fd, nullptr, 0, set.any(), bytes)) return;
      continue;
    }
    const Receipt receipt;
    if (!receive_spinning(fd, set.any(), bytes, spin) || !send_all(fd, &receipt, sizeof receipt, nullptr, 0)) return;
  }
}

// Receives until the peer has no more, then says that everything came.
void drain(int fd, FarSet& set) {
  for (;;) {
    const ssize_t got = ::recv(fd, set.any(), kChunk, MSG_WAITALL);
    if (got == 0) break;
    if (got < 0 && errno != EINTR) return;
  }
  const Receipt receipt;
  send_all(fd, &receipt, sizeof receipt, nullptr, 0);
}

void serve_connection(const Fd& fd) {
  FarSet set;
  Mode mode{};
  make_bare(fd.get());
  if (!receive_blocking(fd.get(), reinterpret_cast<std::byte*>(&mode), sizeof mode)) return;
  switch (mode) {
    case Mode::ping_pong: return answer(fd.get(), set);
    case Mode::receive_from_us: return drain(fd.get(), set);
    case Mode::send_to_us:
      while (send_all(fd.get(), nullptr, 0, set.any(), kChunk)) {
      }
  }
}

}  // namespace

Expected<TcpListener> listen_on_loopback() {
  Expected<TcpListener> listener = listen_tcp("127.0.0.1:0");
  if (listener) make_bare(listener->socket.get());
  return listener;
}

Expected<Fd> connect_to_loopback(std::uint16_t port) {
  Expected<Fd> fd = connect_tcp("127.0.0.1", port, Deadline(kConnectTimeout));
  if (fd) make_bare(fd->get());
  return fd;
}

bool receive_spinning(int fd, std::byte* into, std::size_t bytes, SpinPolicy& spin) {
  bool open = true;
  // One try: true when there is nothing more to wait for.
  const auto ready = [&] {
    const ssize_t got = ::recv(fd, into, bytes, MSG_DONTWAIT);
    if (got > 0) {
      into += got;
      bytes -= static_cast<std::size_t>(got);
    } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
      open = false;
    }
    return bytes == 0 || !open;
  };
  const Clock::time_point begin = Clock::now();
  while (!spin.spin(ready)) {
    pollfd readable{fd, POLLIN, 0};
    ::poll(&readable, 1, -1);
  }
  spin.observe(Clock::now() - begin);
  return open;
}

bool receive_blocking(int fd, std::byte* into, std::size_t bytes) {
  while (bytes > 0) {
    const ssize_t got = ::recv(fd, into, bytes, 0);
    if (got == 0 || (got < 0 && errno != EINTR)) return false;
    if (got < 0) continue;
    into += got;
    bytes -= static_cast<std::size_t>(got);
  }
  return true;
}

bool send_all(int fd, const void* head, std::size_t head_bytes, const std::byte* pages, std::size_t page_bytes) {
  while (head_bytes + page_bytes > 0) {
    iovec pieces[2] = {{const_cast<void*>(head), head_bytes}, {const_cast<std::byte*>(pages), page_bytes}};
    msghdr message{};
    message.msg_iov = head_bytes > 0 ? pieces : pieces + 1;
    message.msg_iovlen = head_bytes > 0 && page_bytes > 0 ? 2 : 1;
    const ssize_t result = ::sendmsg(fd, &message, MSG_NOSIGNAL);
    if (result < 0 && errno != EINTR) return false;
    if (result < 0) continue;
    const std::size_t sent = static_cast<std::size_t>(result);
    const std::size_t of_head = sent < head_bytes ? sent : head_bytes;
    head = static_cast<const std::byte*>(head) + of_head;
    head_bytes -= of_head;
    pages += sent - of_head;
    page_bytes -= sent - of_head;
  }
  return true;
}

int serve(int listener) {
  for (;;) {
    Fd fd(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
    if (!fd && errno != EINTR && errno != ECONNABORTED) return 1;
    if (fd) std::thread([fd = std::move(fd)] { serve_connection(fd); }).detach();
  }
}

}  // namespace comex::bench::bare
