// Making and opening sockets. Every wait has a deadline; every error says which address and what to do.
#pragma once

#include <netdb.h>
#include <sys/types.h>

#include <memory>
#include <string>

#include "base/clock.h"
#include "base/expected.h"
#include "base/fd.h"
#include "base/wait_ready.h"

namespace comex {

struct FreeAddresses {
  void operator()(addrinfo* first) const { freeaddrinfo(first); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;
// At least one, in the order in which they should be tried. `flags`: AI_PASSIVE, to listen on.
Expected<Addresses> resolve(const std::string& host, std::uint16_t port, int flags);

Expected<Fd> connect_tcp(const std::string& host, std::uint16_t port, const Deadline& deadline);

struct TcpListener {
  Fd socket;
  std::uint16_t port = 0;
  bool loopback = false;  // only this machine can reach it
};
// "host:port"; an empty host is all addresses, port 0 picks a free one.
Expected<TcpListener> listen_tcp(const std::string& text);
struct UnixListener {
  Fd socket;
  std::string path;
  ino_t inode = 0;  // 0: it is not in the file system
  // Removes the socket from the file system, unless another has taken its place there.
  void remove() const noexcept;
};
// Replaces the socket of a process that died; refuses if one is serving there. "@name" has no mode: the caller looks
// who comes.
Expected<UnixListener> listen_unix(const std::string& path, mode_t mode);

// No delay, and a dead peer is noticed within about `patience`.
void tune_tcp(int fd, Millis patience) noexcept;

}  // namespace comex
