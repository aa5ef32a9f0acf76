#include "fabric/stream.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "wire/message.h"

namespace comex {
namespace {

constexpr std::size_t kMaxIov = 1024;  // the kernel's IOV_MAX

msghdr message_of(std::span<const iovec> iov) {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(iov.data());
  message.msg_iovlen = std::min(iov.size(), kMaxIov);
  return message;
}

IoResult result_of(ssize_t moved) {
  if (moved > 0) return {static_cast<std::size_t>(moved), Errc::ok};
  if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) return {};
  if (errno == EFAULT) return {0, Errc::io};
  return {0, Errc::disconnected};
}

constexpr std::size_t kFdSpace = CMSG_SPACE(wire::kMaxSlabsPerMap * sizeof(int));

}  // namespace

IoResult SocketStream::read(std::span<const iovec> into) noexcept {
  msghdr message = message_of(into);
  const ssize_t got = recvmsg(socket_.get(), &message, MSG_DONTWAIT);
  if (got == 0) return {0, Errc::disconnected};
  return result_of(got);
}

IoResult SocketStream::write(std::span<const iovec> from) noexcept {
  const msghdr message = message_of(from);
  return result_of(sendmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL));
}

void SocketStream::shut() noexcept {
  ::shutdown(socket_.get(), SHUT_RDWR);
}

IoResult SocketStream::read_with(std::span<const iovec> into, std::vector<Fd>& fds) noexcept {
  alignas(cmsghdr) std::array<char, kFdSpace> control;
  msghdr message = message_of(into);
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t got = recvmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (got == 0) return {0, Errc::disconnected};
  if (got < 0) return result_of(got);
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof fd);
      fds.emplace_back(fd);
    }
  }
  return result_of(got);
}

IoResult SocketStream::write_with(std::span<const iovec> from, std::span<const int> fds) noexcept {
  if (fds.empty()) return write(from);
  alignas(cmsghdr) std::array<char, kFdSpace> control{};
  msghdr message = message_of(from);
  message.msg_control = control.data();
  message.msg_controllen = CMSG_SPACE(fds.size_bytes());
  cmsghdr* c = CMSG_FIRSTHDR(&message);
  c->cmsg_level = SOL_SOCKET;
  c->cmsg_type = SCM_RIGHTS;
  c->cmsg_len = CMSG_LEN(fds.size_bytes());
  std::memcpy(CMSG_DATA(c), fds.data(), fds.size_bytes());
  return result_of(sendmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL));
}

std::size_t advance(std::span<iovec> iov, std::size_t begin, std::size_t bytes) {
  while (begin < iov.size() && bytes >= iov[begin].iov_len) bytes -= iov[begin++].iov_len;
  if (bytes > 0) {
    iov[begin].iov_base = static_cast<char*>(iov[begin].iov_base) + bytes;
    iov[begin].iov_len -= bytes;
  }
  return begin;
}

}  // namespace comex
