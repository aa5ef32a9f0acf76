#include "fuzz/memory_stream.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "fuzz/require.h"

namespace comex::fuzz {
namespace {

// Whoever finds the line blocked must wait, and the harness moves only when it is its turn: so many attempts in a row
// mean that the code under test spins, past any deadline.
constexpr unsigned kMostAttempts = 1000;

// Descriptors that are for ever in one state of readiness.
struct Beacons {
  Fd both{::eventfd(1, EFD_CLOEXEC)};
  Fd writable{::eventfd(0, EFD_CLOEXEC)};
  Fd readable;  // the reading end of a pipe is never writable
  Fd neither;
  Fd readable_far;
  Fd neither_far;

  Beacons() {
    std::array<int, 2> pipe{};
    require(::pipe2(pipe.data(), O_CLOEXEC) == 0, "a pipe can be made");
    readable.reset(pipe[0]);
    readable_far.reset(pipe[1]);
    require(::write(readable_far.get(), "x", 1) == 1, "a pipe can be written");
    require(::pipe2(pipe.data(), O_CLOEXEC) == 0, "a pipe can be made");
    neither.reset(pipe[0]);
    neither_far.reset(pipe[1]);
  }
};

}  // namespace

IoResult MemoryLine::blocked() {
  require(++blocked_in_a_row_ < kMostAttempts, "a stream that would block is waited for, not hammered");
  return {};
}

IoResult MemoryLine::read(std::span<const iovec> into) {
  if (shut_) return {0, Errc::disconnected};
  if (at_ == incoming_.size()) return ended_ ? IoResult{0, Errc::disconnected} : blocked();
  if (read_pieces_.left()) ++moved_;
  std::size_t left = std::min(read_pieces_.take(), unread());
  if (left == 0) return blocked();
  std::size_t done = 0;
  for (const auto& buffer : into) {
    const std::size_t share = std::min(left, buffer.iov_len);
    if (share > 0) std::memcpy(buffer.iov_base, incoming_.data() + at_, share);
    at_ += share;
    left -= share;
    done += share;
  }
  require(done > 0, "a read has room for a byte");  // a socket would answer 0, which means the end
  moved_ += done;
  blocked_in_a_row_ = 0;
  if (at_ == incoming_.size()) {
    incoming_.clear();
    at_ = 0;
  }
  return {done, Errc::ok};
}

IoResult MemoryLine::write(std::span<const iovec> from) {
  if (shut_) return {0, Errc::disconnected};
  if (write_allowance_ == 0) return blocked();
  if (write_pieces_.left()) ++moved_;
  std::size_t left = std::min(write_pieces_.take(), write_allowance_);
  if (left == 0) return blocked();
  std::size_t done = 0;
  for (const auto& buffer : from) {
    const std::size_t share = std::min(left, buffer.iov_len);
    const auto* bytes = static_cast<const std::byte*>(buffer.iov_base);
    outgoing_.insert(outgoing_.end(), bytes, bytes + share);
    left -= share;
    done += share;
  }
  require(done > 0, "a write has a byte to send");
  if (write_allowance_ != kNoLimit) write_allowance_ -= done;
  moved_ += done;
  blocked_in_a_row_ = 0;
  return {done, Errc::ok};
}

int MemoryLine::fd() const {
  static const Beacons beacons;
  if (readable()) return (writable() ? beacons.both : beacons.readable).get();
  return (writable() ? beacons.writable : beacons.neither).get();
}

}  // namespace comex::fuzz
