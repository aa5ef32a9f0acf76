// How processes come in by a socket with a name.
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <utility>

#include "run/keeper/keeper_server.h"

namespace comex {

void KeeperServer::accept_from(int listener) {
  Fd socket(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket) return;
  ucred who{};
  socklen_t size = sizeof who;
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &who, &size) != 0) return;
  if (who.uid != ::geteuid() && who.uid != 0) {
    spdlog::warn("process {} of user {} was refused: the program belongs to user {}", who.pid, who.uid, ::geteuid());
    return;
  }
  (void)add(std::move(socket));
}

Expected<Fd> listen_keeper(const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (name.size() < 2 || name.size() >= sizeof address.sun_path) {
    return Error{Errc::invalid,
                 fmt::format("'{}' is no name for a socket: 2 to {} characters", name, sizeof address.sun_path - 1)};
  }
  std::memcpy(address.sun_path, name.data(), name.size());
  const bool abstract = name.front() == '@';
  if (abstract) address.sun_path[0] = '\0';
  Fd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return system_error("cannot make a socket");
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size() + (abstract ? 0 : 1));
  const mode_t before = ::umask(0177);
  const int bound = ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), size);
  ::umask(before);
  if (bound != 0 || ::listen(fd.get(), 128) != 0) return system_error(fmt::format("cannot listen on {}", name));
  return fd;
}

}  // namespace comex
