// One packet of a SEQPACKET socket, with descriptors and credentials. For both ends of keeper_wire.h.
//
// Thread safety: as the socket's. Fault path: yes; nothing is allocated, nothing blocks. Part of the code inside
// programs.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <span>

#include "base/expected.h"
#include "base/fd.h"
#include "run/keeper_wire.h"

namespace comex {

// Descriptors that came with a packet. Closes those that nobody took.
class ReceivedFds {
 public:
  [[nodiscard]] std::size_t size() const noexcept { return count_; }
  // Empty if there is no such one.
  [[nodiscard]] Fd take(std::size_t i) noexcept { return i < count_ ? std::move(fds_[i]) : Fd(); }
  void clear() noexcept;
  // For receive_packet. False, and the descriptor is closed, if there are too many.
  bool add(int fd) noexcept;

 private:
  std::array<Fd, keeper_wire::kMaxDescriptors> fds_;
  std::size_t count_ = 0;
};

struct Received {
  Errc error =
      Errc::ok;  // disconnected: the other end is gone; invalid: longer than the buffer, or no room for its descriptors
  std::size_t bytes = 0;  // 0 and ok: nothing there now
  pid_t pid = 0;          // of the sender, where the socket asks for credentials (SO_PASSCRED); 0: not known here
  uid_t uid = static_cast<uid_t>(-1);
};
Received receive_packet(int socket, std::span<std::byte> into, ReceivedFds& fds) noexcept;

// Errc::busy: the socket is full, nothing was sent. Errc::disconnected: nobody will ever read it.
Errc send_packet(int socket, std::span<const iovec> parts, std::span<const int> fds = {}) noexcept;

}  // namespace comex
