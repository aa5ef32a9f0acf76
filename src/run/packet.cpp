#include "run/packet.h"

#include <cerrno>
#include <cstring>

#include "run/descriptor_limit.h"

namespace comex {
namespace {

constexpr std::size_t kFdSpace = CMSG_SPACE(keeper_wire::kMaxDescriptors * sizeof(int));

// MSG_PEEK: the message stays, but descriptors come all the same.
Received receive_once(int socket, std::span<std::byte> into, ReceivedFds& fds, int flags) noexcept {
  fds.clear();
  alignas(cmsghdr) std::array<char, kFdSpace + CMSG_SPACE(sizeof(ucred))> control;
  iovec part{into.data(), into.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t got = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC | flags);
  Received received;
  if (got < 0) {
    if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) received.error = Errc::disconnected;
    return received;
  }
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_level != SOL_SOCKET) continue;
    if (c->cmsg_type == SCM_CREDENTIALS) {
      ucred who{};
      std::memcpy(&who, CMSG_DATA(c), sizeof who);
      received.pid = who.pid;
      received.uid = who.uid;
    }
    if (c->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof fd);
      (void)fds.add(fd);
    }
  }
  if (got == 0) {
    received.error = Errc::disconnected;  // no message is empty
  } else if ((message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) {
    received.error = Errc::invalid;
  }
  received.bytes = static_cast<std::size_t>(got);
  return received;
}

}  // namespace

void ReceivedFds::clear() noexcept {
  for (std::size_t i = 0; i < count_; ++i) fds_[i].reset();
  count_ = 0;
}

bool ReceivedFds::add(int fd) noexcept {
  Fd owned(fd);
  if (count_ == fds_.size()) return false;
  fds_[count_++] = std::move(owned);
  return true;
}

Received receive_packet(int socket, std::span<std::byte> into, ReceivedFds& fds) noexcept {
  Received received = receive_once(socket, into, fds, MSG_PEEK);
  if (received.error == Errc::invalid) {
    // Perhaps there was no room for the descriptors, and they would be lost.
    const RaisedDescriptorLimit more;
    return receive_once(socket, into, fds, 0);
  }
  // What was only looked at is taken. If the other end has gone meanwhile, that is said once, and then it can be.
  msghdr nothing{};
  if (received.bytes > 0 && recvmsg(socket, &nothing, MSG_DONTWAIT) < 0) (void)recvmsg(socket, &nothing, MSG_DONTWAIT);
  return received;
}

Errc send_packet(int socket, std::span<const iovec> parts, std::span<const int> fds) noexcept {
  alignas(cmsghdr) std::array<char, kFdSpace> control{};
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(parts.data());
  message.msg_iovlen = parts.size();
  if (!fds.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* const c = CMSG_FIRSTHDR(&message);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(c), fds.data(), fds.size_bytes());
  }
  for (;;) {
    if (sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0) return Errc::ok;
    if (errno == EINTR) continue;
    // Too many descriptors on their way to others: they are read in a moment.
    const bool later = errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS || errno == ETOOMANYREFS;
    return later ? Errc::busy : Errc::disconnected;
  }
}

}  // namespace comex
