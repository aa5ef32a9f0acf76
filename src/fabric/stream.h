// A connected byte stream that never blocks: a plain socket, or TLS on one.
//
// Thread safety: one thread may read while another writes. Neither allocates (TLS: OpenSSL may, inside).
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/expected.h"
#include "base/fd.h"

namespace comex {

// How much was moved. Nothing moved and no error: it would have had to wait.
struct IoResult {
  std::size_t bytes = 0;
  Errc error = Errc::ok;
  [[nodiscard]] bool would_block() const { return bytes == 0 && error == Errc::ok; }
};

class Stream {
 public:
  virtual ~Stream() = default;
  // The end of the stream is Errc::disconnected.
  virtual IoResult read(std::span<const iovec> into) noexcept = 0;
  virtual IoResult write(std::span<const iovec> from) noexcept = 0;
  // The descriptor to poll.
  [[nodiscard]] virtual int fd() const noexcept = 0;
  // Ends the connection in both directions; whoever polls fd() wakes up. Does not free anything.
  virtual void shut() noexcept = 0;
  // What to poll for after a call would have blocked: `usual` (POLLIN or POLLOUT), unless the stream knows better. In a
  // TLS handshake a write may have to wait for something to read.
  [[nodiscard]] virtual short blocked_on(short usual) const noexcept { return usual; }
  // Whether the stream can be closed without losing what was written. If not, fd() becomes readable when it is time to
  // ask again.
  [[nodiscard]] virtual bool delivered() noexcept { return true; }
  // What went wrong beneath, for people; empty if nothing did.
  [[nodiscard]] virtual std::string complaint() const { return {}; }
};

// A TCP or Unix socket. On a Unix socket descriptors can travel with the bytes.
class SocketStream final : public Stream {
 public:
  explicit SocketStream(Fd socket) : socket_(std::move(socket)) {}

  IoResult read(std::span<const iovec> into) noexcept override;
  IoResult write(std::span<const iovec> from) noexcept override;
  [[nodiscard]] int fd() const noexcept override { return socket_.get(); }
  void shut() noexcept override;

  // As read and write, with descriptors: received ones are appended to `fds`; `fds` go out with the first byte.
  IoResult read_with(std::span<const iovec> into, std::vector<Fd>& fds) noexcept;
  IoResult write_with(std::span<const iovec> from, std::span<const int> fds) noexcept;

 private:
  Fd socket_;
};

// Drops the first `bytes` of the buffers in `iov` from `*begin` on. Returns the index of the first that is left.
std::size_t advance(std::span<iovec> iov, std::size_t begin, std::size_t bytes);

}  // namespace comex
