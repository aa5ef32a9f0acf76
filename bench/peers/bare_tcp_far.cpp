#include "bench/peers/bare_tcp_far.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>
#include <thread>
#include <vector>

#include "base/clock.h"

namespace comex::bench::bare {

namespace {

constexpr Millis kSpin{1};
constexpr Millis kConnectTimeout{3000};

// Blocking, and with no option set but the one everybody sets.
void make_bare(int fd) {
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) & ~O_NONBLOCK);
}

bool worth_spinning() {
  static const bool worth = std::thread::hardware_concurrency() >= 2;
  return worth;
}

void answer(int fd, std::byte* buffer) {
  Request request;
  while (receive_spinning(fd, reinterpret_cast<std::byte*>(&request), sizeof request)) {
    const std::size_t bytes = std::size_t{request.pages} * kPageSize;
    if (bytes > kChunk) return;
    if (request.write == 0) {
      if (!send_all(fd, nullptr, 0, buffer, bytes)) return;
      continue;
    }
    const Receipt receipt;
    if (!receive_spinning(fd, buffer, bytes) || !send_all(fd, &receipt, sizeof receipt, nullptr, 0)) return;
  }
}

// Receives until the peer has no more, then says that everything came.
void drain(int fd, std::byte* buffer) {
  for (;;) {
    const ssize_t got = ::recv(fd, buffer, kChunk, 0);
    if (got == 0) break;
    if (got < 0 && errno != EINTR) return;
  }
  const Receipt receipt;
  send_all(fd, &receipt, sizeof receipt, nullptr, 0);
}

void serve_connection(const Fd& fd) {
  std::vector<std::byte> buffer(kChunk, std::byte{0x5a});
  Mode mode{};
  make_bare(fd.get());
  if (!receive_blocking(fd.get(), reinterpret_cast<std::byte*>(&mode), sizeof mode)) return;
  switch (mode) {
    case Mode::ping_pong: return answer(fd.get(), buffer.data());
    case Mode::receive_from_us: return drain(fd.get(), buffer.data());
    case Mode::send_to_us:
      while (send_all(fd.get(), nullptr, 0, buffer.data(), kChunk)) {
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

bool receive_spinning(int fd, std::byte* into, std::size_t bytes) {
  if (!worth_spinning()) return receive_blocking(fd, into, bytes);
  // The clock is read only every so many empty tries: a read of it must not delay the next try.
  constexpr unsigned kTriesPerLook = 32;
  Clock::time_point silent_since{};
  unsigned tries = 0;
  while (bytes > 0) {
    const ssize_t got = ::recv(fd, into, bytes, MSG_DONTWAIT);
    if (got > 0) {
      into += got;
      bytes -= static_cast<std::size_t>(got);
      tries = 0;
      continue;
    }
    if (got == 0 || (errno != EAGAIN && errno != EINTR)) return false;
    if (++tries % kTriesPerLook != 0) continue;
    // Where both ends were put on one core, spinning on would keep the other from answering.
    ::sched_yield();
    const Clock::time_point now = Clock::now();
    if (tries == kTriesPerLook) silent_since = now;
    if (now - silent_since > kSpin) {
      pollfd readable{fd, POLLIN, 0};
      ::poll(&readable, 1, -1);
      tries = 0;
    }
  }
  return true;
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
