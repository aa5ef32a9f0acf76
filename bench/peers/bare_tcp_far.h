// The two ends of the bare TCP figures (see bare_tcp.h): what they say to each other, and the far side's program.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/expected.h"
#include "base/fd.h"
#include "base/spin.h"
#include "bench/peers/peer.h"
#include "fabric/connect.h"
#include "fabric/socket.h"

namespace comex::bench::bare {

// The first byte on a connection says what it is for.
enum class Mode : char { ping_pong = 'p', send_to_us = 's', receive_from_us = 'r' };

struct Request {
  std::uint32_t write = 0;  // 1: `pages` pages follow
  std::uint32_t pages = 0;
  std::byte filler[24] = {};  // a comex request with one extent has this size
};
static_assert(sizeof(Request) == 32);

struct Receipt {
  std::byte filler[16] = {};  // a comex reply without a body has this size
};
static_assert(sizeof(Receipt) == 16);

inline constexpr std::size_t kChunk = std::size_t{kBatchPages} * kPageSize;

Expected<TcpListener> listen_on_loopback();
Expected<Fd> connect_to_loopback(std::uint16_t port);

// The longest spin of both sides: what a link and a node have unless told otherwise.
inline Nanos max_spin() {
  return LinkOptions{}.max_spin;
}

// Receives exactly `bytes`: spins on a recv that does not block, then sleeps. False: the peer closed, or an error.
bool receive_spinning(int fd, std::byte* into, std::size_t bytes, SpinPolicy& spin);
// The same, asleep all the time.
bool receive_blocking(int fd, std::byte* into, std::size_t bytes);
// Sends both pieces in full; either may be empty.
bool send_all(int fd, const void* head, std::size_t head_bytes, const std::byte* pages, std::size_t page_bytes);

// The far side: serves connections until it is killed. Returns an exit code if it cannot go on.
int serve(int listener);

}  // namespace comex::bench::bare
