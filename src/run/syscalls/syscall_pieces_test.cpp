#include "run/syscalls/syscall_pieces.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/syscall.h>

namespace comex::syscalls {
namespace {

Pieces of(std::uint64_t number, Descriptor descriptor, std::array<std::uint64_t, kArguments> arguments = {}) {
  return pieces_of({number, arguments}, descriptor);
}

TEST(PiecesOf, files_are_read_and_written_in_pieces) {
  for (const std::uint64_t number : {SYS_read, SYS_write, SYS_readv, SYS_writev, SYS_pread64, SYS_pwrite64, SYS_preadv})
    EXPECT_EQ(of(number, Descriptor::file), Pieces::all) << number;
}

TEST(PiecesOf, a_stream_is_written_whole_and_read_short) {
  EXPECT_EQ(of(SYS_write, Descriptor::stream), Pieces::all);
  EXPECT_EQ(of(SYS_writev, Descriptor::stream), Pieces::all);
  EXPECT_EQ(of(SYS_read, Descriptor::stream), Pieces::first);
  EXPECT_EQ(of(SYS_sendto, Descriptor::stream), Pieces::all);
  EXPECT_EQ(of(SYS_recvfrom, Descriptor::stream), Pieces::first);
  EXPECT_EQ(of(SYS_recvfrom, Descriptor::stream, {0, 0, 0, MSG_WAITALL}), Pieces::all);
  EXPECT_EQ(of(SYS_recvfrom, Descriptor::stream, {0, 0, 0, MSG_PEEK}), Pieces::never);
  EXPECT_EQ(of(SYS_sendto, Descriptor::stream, {0, 0, 0, MSG_OOB}), Pieces::never);
  EXPECT_EQ(of(SYS_sendto, Descriptor::stream, {0, 0, 0, MSG_NOSIGNAL | MSG_DONTWAIT}), Pieces::all);
  EXPECT_EQ(of(SYS_sendmsg, Descriptor::stream, {0, 0, MSG_NOSIGNAL}), Pieces::all);
  EXPECT_EQ(of(SYS_sendmsg, Descriptor::stream, {0, 0, MSG_OOB}), Pieces::never);
  EXPECT_EQ(of(SYS_recvmsg, Descriptor::stream), Pieces::first);
  EXPECT_EQ(of(SYS_recvmsg, Descriptor::stream, {0, 0, MSG_WAITALL}), Pieces::all);
  EXPECT_EQ(of(SYS_recvmsg, Descriptor::stream, {0, 0, MSG_PEEK}), Pieces::never);
}

TEST(PiecesOf, messages_are_never_cut) {
  for (std::uint64_t number = 0; number < kEntries; ++number) {
    const Cut cut = entry(number).cut;
    if (cut == Cut::shorter || cut == Cut::repeated) continue;
    EXPECT_EQ(of(number, Descriptor::message), Pieces::never) << entry(number).name;
  }
}

TEST(PiecesOf, flags_and_offsets_of_preadv2_matter) {
  constexpr std::uint64_t kHere = UINT64_MAX;
  EXPECT_EQ(of(SYS_preadv2, Descriptor::file, {0, 0, 0, 4096}), Pieces::all);
  EXPECT_EQ(of(SYS_preadv2, Descriptor::stream, {0, 0, 0, kHere}), Pieces::first);
  EXPECT_EQ(of(SYS_pwritev2, Descriptor::file, {0, 0, 0, 0, 0, 0x10}), Pieces::never);
}

TEST(PiecesOf, lists_may_be_shorter) {
  EXPECT_EQ(of(SYS_getdents64, Descriptor::message), Pieces::first);
  EXPECT_EQ(of(SYS_epoll_wait, Descriptor::message), Pieces::first);
  EXPECT_EQ(of(SYS_getrandom, Descriptor::message), Pieces::all);
  EXPECT_EQ(of(SYS_poll, Descriptor::message), Pieces::never);
}

}  // namespace
}  // namespace comex::syscalls
