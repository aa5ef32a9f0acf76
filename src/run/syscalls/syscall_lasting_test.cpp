#include "run/syscalls/syscall_lasting.h"

#include <gtest/gtest.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#include <cstddef>

namespace comex::syscalls {
namespace {

TEST(SyscallLasting, needs_message_whatTheGateCannotCover) {
  EXPECT_TRUE(needs_message({SYS_io_uring_setup, {}}));
  EXPECT_TRUE(needs_message({SYS_io_setup, {}}));
  EXPECT_TRUE(needs_message({SYS_ioctl, {3, 0x4020AE46}}));
  EXPECT_FALSE(needs_message({SYS_ioctl, {3, UFFDIO_REGISTER}}));
  EXPECT_FALSE(needs_message({SYS_read, {}}));
  EXPECT_FALSE(needs_message({SYS_set_robust_list, {}}));
}

TEST(SyscallLasting, keeps_everyLastingCallOfTheTableIsDecided) {
  EXPECT_EQ(keeps({SYS_rseq, {}}), Keeps::addresses);
  EXPECT_EQ(keeps({SYS_set_tid_address, {}}), Keeps::addresses);
  EXPECT_EQ(keeps({SYS_set_robust_list, {}}), Keeps::addresses);
  EXPECT_EQ(keeps({SYS_io_submit, {}}), Keeps::addresses);
  EXPECT_EQ(keeps({SYS_ioctl, {3, UFFDIO_REGISTER}}), Keeps::range);
  EXPECT_EQ(keeps({SYS_ioctl, {3, UFFDIO_COPY}}), Keeps::nothing);
  EXPECT_EQ(keeps({SYS_prctl, {59}}), Keeps::refused);
  EXPECT_EQ(keeps({SYS_vmsplice, {}}), Keeps::nothing);
  EXPECT_EQ(keeps({SYS_io_uring_setup, {}}), Keeps::unknown);
}

TEST(SyscallLasting, range_at_isWhereTheKernelLooks) {
  const RangeAt uffd = range_at({SYS_ioctl, {3, UFFDIO_REGISTER}});
  EXPECT_EQ(uffd.begin, offsetof(uffdio_register, range.start));
  EXPECT_EQ(uffd.bytes, offsetof(uffdio_register, range.len));
}

}  // namespace
}  // namespace comex::syscalls
