#include "fabric/dial.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>

#include <cerrno>
#include <cstring>

#include "base/wait_ready.h"

namespace comex {

Expected<Fd> dial(const sockaddr& address, socklen_t size, const Deadline& deadline) {
  Fd fd(::socket(address.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return system_error("cannot make a socket");
  if (::connect(fd.get(), &address, size) == 0) return fd;
  if (errno != EINPROGRESS) return Error{Errc::disconnected, std::strerror(errno)};
  if (!wait_ready(fd.get(), POLLOUT, deadline)) return Error{Errc::timeout, "no answer"};
  int failure = 0;
  socklen_t length = sizeof failure;
  getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &failure, &length);
  if (failure != 0) return Error{Errc::disconnected, std::strerror(failure)};
  return fd;
}

Expected<Fd> dial_number(const std::string& host, std::uint16_t port, const Deadline& deadline) {
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_port = htons(port);
  if (inet_pton(AF_INET, host.c_str(), &v4.sin_addr) == 1) {
    return dial(reinterpret_cast<const sockaddr&>(v4), sizeof v4, deadline);
  }
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(port);
  if (inet_pton(AF_INET6, host.c_str(), &v6.sin6_addr) == 1) {
    return dial(reinterpret_cast<const sockaddr&>(v6), sizeof v6, deadline);
  }
  return Error{Errc::invalid, fmt::format("'{}' is no address in numbers", host)};
}

Expected<sockaddr_un> unix_address(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) {
    return Error{Errc::invalid, fmt::format("socket path '{}' must have 1 to {} characters; use a shorter one", path,
                                            sizeof address.sun_path - 1)};
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  if (path.starts_with('@')) address.sun_path[0] = '\0';
  return address;
}

Expected<Fd> connect_unix(const std::string& path) {
  const auto address = unix_address(path);
  if (!address) return address.error();
  Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return system_error("cannot make a socket");
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) == 0) return fd;
  if (errno == EACCES) {
    return Error{Errc::denied,
                 fmt::format("no permission to use {}: ask its owner for `comex serve --socket-mode`", path)};
  }
  return Error{Errc::disconnected,
               fmt::format("cannot reach {}: {}; is `comex serve` running there?", path, std::strerror(errno))};
}

}  // namespace comex
