#include "fabric/connect.h"

#include "fabric/rdma_link.h"
#include "fabric/shm_link.h"
#include "fabric/tcp_link.h"

namespace comex {

Expected<std::unique_ptr<Link>> connect(const Url& url, const LinkOptions& options) {
  switch (url.scheme) {
    case Url::Scheme::unix_socket: return ShmLink::open(url, options);
    case Url::Scheme::rdma: return RdmaLink::open(url, options);
    default: return TcpLink::open(url, options);
  }
}

}  // namespace comex
