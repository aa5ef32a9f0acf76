#include "fabric/connect.h"

#include "fabric/shm_link.h"
#include "fabric/tcp_link.h"

namespace comex {

Expected<std::unique_ptr<Link>> connect(const Url& url, const LinkOptions& options) {
  return url.scheme == Url::Scheme::unix_socket ? ShmLink::open(url, options) : TcpLink::open(url, options);
}

}  // namespace comex
