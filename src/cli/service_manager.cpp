#include "cli/service_manager.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <cstddef>
#include <cstdlib>

#include "base/fd.h"

namespace comex {

void tell_service_manager(std::string_view state) {
  const char* const where = std::getenv("NOTIFY_SOCKET");
  const std::string_view path = where != nullptr ? where : "";
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() > sizeof address.sun_path) return;
  path.copy(address.sun_path, path.size());
  if (path.front() == '@') address.sun_path[0] = 0;
  const Fd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket) return;
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
  (void)::sendto(socket.get(), state.data(), state.size(), MSG_NOSIGNAL, reinterpret_cast<sockaddr*>(&address), size);
}

}  // namespace comex
