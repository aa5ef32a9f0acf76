#include "fabric/stream.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <array>
#include <string>

namespace comex {
namespace {

struct Pair {
  Pair() {
    int fds[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    a = std::make_unique<SocketStream>(Fd(fds[0]));
    b = std::make_unique<SocketStream>(Fd(fds[1]));
  }
  std::unique_ptr<SocketStream> a, b;
};

iovec buffer(std::string& text) {
  return {text.data(), text.size()};
}

TEST(Stream, moves_scattered_bytes_and_never_blocks) {
  Pair pair;
  std::string one = "one", two = "twotwo", got(9, '\0');
  const std::array out{buffer(one), buffer(two)};
  const std::array in{buffer(got)};
  EXPECT_TRUE(pair.b->read(in).would_block());
  EXPECT_EQ(pair.a->write(out).bytes, 9U);
  EXPECT_EQ(pair.b->read(in).bytes, 9U);
  EXPECT_EQ(got, "onetwotwo");
}

TEST(Stream, full_buffer_would_block_and_end_is_disconnected) {
  Pair pair;
  std::string much(1 << 20, 'x');
  const std::array out{buffer(much)};
  while (!pair.a->write(out).would_block()) {
  }
  pair.b->shut();
  EXPECT_EQ(pair.a->write(out).error, Errc::disconnected) << "and no SIGPIPE";
  Pair other;
  other.a.reset();
  std::string got(1, '\0');
  const std::array in{buffer(got)};
  EXPECT_EQ(other.b->read(in).error, Errc::disconnected);
}

TEST(Stream, descriptors_travel_with_the_bytes) {
  Pair pair;
  const Fd memory(memfd_create("test", MFD_CLOEXEC));
  std::string byte = "x";
  const std::array io{buffer(byte)};
  const std::array sent{memory.get()};
  EXPECT_EQ(pair.a->write_with(io, sent).bytes, 1U);
  std::vector<Fd> got;
  EXPECT_EQ(pair.b->read_with(io, got).bytes, 1U);
  ASSERT_EQ(got.size(), 1U);
  EXPECT_EQ(ftruncate(got[0].get(), 4096), 0);
  EXPECT_EQ(lseek(memory.get(), 0, SEEK_END), 4096) << "the same file";
}

TEST(Stream, advance_drops_whole_and_partial_buffers) {
  std::string a = "aaa", b = "bbb", c = "ccc";
  std::array iov{buffer(a), buffer(b), buffer(c)};
  EXPECT_EQ(advance(iov, 0, 0), 0U);
  EXPECT_EQ(advance(iov, 0, 4), 1U);
  EXPECT_EQ(iov[1].iov_len, 2U);
  EXPECT_EQ(advance(iov, 1, 2), 2U);
  EXPECT_EQ(advance(iov, 2, 3), 3U);
}

}  // namespace
}  // namespace comex
