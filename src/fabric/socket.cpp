#include "fabric/socket.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "fabric/dial.h"
#include "fabric/url.h"

namespace comex {
namespace {

constexpr int kBacklog = 512;

bool is_loopback(const sockaddr* address) {
  if (address->sa_family == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(address);
    return (ntohl(v4->sin_addr.s_addr) >> 24) == 127;
  }
  const auto* v6 = reinterpret_cast<const sockaddr_in6*>(address);
  return IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
}

// A socket whose queue is full belongs to a node that is busy, or stopped, but there.
bool somebody_listens(const sockaddr_un& address) {
  const Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  return ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 || errno == EAGAIN;
}

}  // namespace

Expected<Addresses> resolve(const std::string& host, std::uint16_t port, int flags) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int failure = getaddrinfo(host.empty() ? nullptr : host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (failure != 0) {
    return Error{Errc::invalid, fmt::format("no address for host '{}': {}", host, gai_strerror(failure))};
  }
  return Addresses(found);
}

Expected<Fd> connect_tcp(const std::string& host, std::uint16_t port, const Deadline& deadline) {
  auto addresses = resolve(host, port, 0);
  if (!addresses) return std::move(addresses).error();
  Error last{Errc::disconnected, "no address"};
  for (const addrinfo* info = addresses->get(); info != nullptr; info = info->ai_next) {
    auto fd = dial(*info->ai_addr, info->ai_addrlen, deadline);
    if (fd) return fd;
    last = std::move(fd).error();
  }
  last.message = fmt::format("cannot reach {}:{}: {}; is `comex serve` running there?", host, port, last.message);
  return last;
}

Expected<TcpListener> listen_tcp(const std::string& text) {
  const auto where = parse_host_port(text);
  if (!where) return where.error();
  auto addresses = resolve(where->host, where->port, AI_PASSIVE);
  if (!addresses) return std::move(addresses).error();
  const addrinfo& info = **addresses;
  TcpListener listener;
  listener.socket = Fd(::socket(info.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!listener.socket) return system_error("cannot make a socket");
  const int on = 1;
  // A restart must not have to wait for the connections of the last run to be forgotten.
  setsockopt(listener.socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(listener.socket.get(), info.ai_addr, info.ai_addrlen) != 0 ||
      ::listen(listener.socket.get(), kBacklog) != 0) {
    return system_error(fmt::format("cannot listen on {}", text));
  }
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  getsockname(listener.socket.get(), reinterpret_cast<sockaddr*>(&bound), &size);
  listener.loopback = is_loopback(reinterpret_cast<const sockaddr*>(&bound));
  listener.port = ntohs(bound.ss_family == AF_INET ? reinterpret_cast<const sockaddr_in&>(bound).sin_port
                                                   : reinterpret_cast<const sockaddr_in6&>(bound).sin6_port);
  return listener;
}

void UnixListener::remove() const noexcept {
  struct stat there {};
  if (inode != 0 && ::lstat(path.c_str(), &there) == 0 && there.st_ino == inode) ::unlink(path.c_str());
}

Expected<UnixListener> listen_unix(const std::string& path, mode_t mode) {
  const auto address = unix_address(path);
  if (!address) return address.error();
  if (somebody_listens(*address)) {
    return Error{Errc::busy, fmt::format("another node is serving on {}; stop it or choose another --socket", path)};
  }
  struct stat there {};
  const bool file = !path.starts_with('@');
  if (file && ::lstat(path.c_str(), &there) == 0) {
    if (!S_ISSOCK(there.st_mode)) {
      return Error{Errc::invalid, fmt::format("{} exists and is not a socket; choose another --socket", path)};
    }
    ::unlink(path.c_str());
  }
  Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return system_error("cannot make a socket");
  // The permissions must be right from the first moment the socket exists.
  const mode_t before = ::umask(~mode & 0777);
  const int bound = ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address);
  ::umask(before);
  if (bound != 0 || ::listen(fd.get(), kBacklog) != 0) return system_error(fmt::format("cannot listen on {}", path));
  if (file && ::lstat(path.c_str(), &there) != 0) return system_error(fmt::format("cannot listen on {}", path));
  return UnixListener{std::move(fd), path, there.st_ino};
}

void tune_tcp(int fd, Millis patience) noexcept {
  const auto set = [fd](int level, int option, int value) { setsockopt(fd, level, option, &value, sizeof value); };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  const int seconds = std::max(1, static_cast<int>(patience.count() / 1000));
  set(IPPROTO_TCP, TCP_KEEPIDLE, seconds);
  set(IPPROTO_TCP, TCP_KEEPINTVL, std::max(1, seconds / 3));
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(patience.count()));
}

}  // namespace comex
