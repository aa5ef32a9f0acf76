#include "node/local_end.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace comex {
namespace {

constexpr int kPeerPidfd = 77;  // SO_PEERPIDFD, Linux 6.5

// EINVAL: so kernels say it of a process that somebody has waited for already.
PeerProcess without_descriptor() {
  return {.life = Fd(), .gone = errno == ESRCH || errno == EINVAL};
}

}  // namespace

PeerProcess peer_process(int socket) noexcept {
  int process = -1;
  socklen_t size = sizeof process;
  if (getsockopt(socket, SOL_SOCKET, kPeerPidfd, &process, &size) == 0) return {.life = Fd(process)};
  if (errno != ENOPROTOOPT) return without_descriptor();
  // By its number, which may be another's by now: then the lease decides.
  ucred peer{};
  size = sizeof peer;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || peer.pid <= 0) return {};
  process = static_cast<int>(syscall(SYS_pidfd_open, peer.pid, 0));
  return process >= 0 ? PeerProcess{.life = Fd(process)} : without_descriptor();
}

Peer::Want LocalEnd::step() noexcept {
  pollfd ended{process_.get(), POLLIN, 0};
  if (poll(&ended, 1, 0) == 0) return Want::read;
  if (client_->coming.load() == coming_) ledger_.end(*client_);
  return Want::close;
}

}  // namespace comex
