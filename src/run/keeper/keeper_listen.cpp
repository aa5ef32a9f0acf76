#include "run/keeper/keeper_listen.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace comex {

Expected<std::string> abstract_name(const char* kind) {
  std::array<std::uint64_t, 2> random{};
  if (getentropy(random.data(), sizeof random) != 0) return system_error("no random numbers");
  return fmt::format("@comex-{}-{:016x}{:016x}", kind, random[0], random[1]);
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
