#include "run/syscalls/syscall_lasting.h"

#include <gtest/gtest.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#include <cstddef>

namespace comex::syscalls {
namespace {

TEST(SyscallLasting, mayPin_everyDriverThatIsNotKnown) {
  for (const std::uint64_t request : {0xC0181B01UL, 0xC0406469UL, 0x3B71UL, 0x2285UL}) {  // RDMA, DRM, VFIO, SG_IO
    EXPECT_TRUE(may_pin({SYS_ioctl, {3, request}})) << std::hex << request;
    EXPECT_EQ(class_of({SYS_ioctl, {3, request}}), Class::lasting) << std::hex << request;
  }
  for (const std::uint64_t request : {0x5401UL, 0x541BUL, 0x8910UL, 0x40049409UL, 0x80086601UL}) {
    EXPECT_FALSE(may_pin({SYS_ioctl, {3, request}})) << std::hex << request;
    EXPECT_NE(class_of({SYS_ioctl, {3, request}}), Class::lasting) << std::hex << request;
  }
  EXPECT_TRUE(may_pin({SYS_setsockopt, {3, 283, 4}}));
  EXPECT_EQ(class_of({SYS_setsockopt, {3, 283, 4}}), Class::lasting);
  EXPECT_FALSE(may_pin({SYS_setsockopt, {3, 1, 2}}));
  EXPECT_FALSE(may_pin({SYS_read, {3}}));
}

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
