// Structures that lead to more memory: real ones, as the C library lays them out, so that offsets are proved too.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/aio_abi.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <mqueue.h>
#include <net/if.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include <csignal>
#include <string>

#include "run/syscalls/recording_visitor_test.h"

namespace comex::syscalls {
namespace {

std::uint64_t at(const void* pointer) {
  return reinterpret_cast<std::uint64_t>(pointer);
}

class Structures : public testing::Test {
 protected:
  Enumeration walk(std::uint64_t number, std::array<std::uint64_t, kArguments> arguments, std::uint32_t limit = 5000) {
    visitor_.ranges.clear();
    visitor_.real = true;
    const auto result = enumerate({number, arguments}, visitor_, limit);
    EXPECT_FALSE(visitor_.read_before_announced);
    return result;
  }
  bool touches(const void* pointer, std::size_t bytes, bool kernel_writes) const {
    for (const Range& range : visitor_.ranges)
      if (range.address == at(pointer) && range.bytes == bytes && range.kernel_writes == kernel_writes) return true;
    return false;
  }
  RecordingVisitor visitor_;
  char data_[3][300] = {};
};

TEST_F(Structures, iovecs) {
  iovec vectors[] = {{data_[0], 10}, {nullptr, 0}, {data_[1], 300}};
  walk(SYS_readv, {3, at(vectors), 3});
  EXPECT_TRUE(touches(vectors, sizeof vectors, false));
  EXPECT_TRUE(touches(data_[0], 10, true));
  EXPECT_TRUE(touches(data_[1], 300, true));
  walk(SYS_pwritev2, {3, at(vectors), 3});
  EXPECT_TRUE(touches(data_[1], 300, false));
}

TEST_F(Structures, iovecs_that_the_kernel_refuses_are_left_alone) {
  iovec vectors[] = {{data_[0], 10}, {data_[1], SIZE_MAX}};
  walk(SYS_readv, {3, at(vectors), 1025});
  EXPECT_TRUE(visitor_.ranges.empty());
  walk(SYS_readv, {3, at(vectors), 2});
  EXPECT_FALSE(touches(data_[1], kMaxTransfer, true));
}

TEST_F(Structures, messages) {
  iovec vector{data_[0], 200};
  msghdr message{data_[1], 16, &vector, 1, data_[2], 48, 0};
  walk(SYS_sendmsg, {3, at(&message), 0});
  EXPECT_TRUE(touches(&message, sizeof message, false));
  EXPECT_TRUE(touches(data_[0], 200, false));
  EXPECT_TRUE(touches(data_[1], 16, false));
  EXPECT_TRUE(touches(data_[2], 48, false));
  walk(SYS_recvmsg, {3, at(&message), 0});
  EXPECT_TRUE(touches(&message, sizeof message, true));
  EXPECT_TRUE(touches(data_[2], 48, true));
  mmsghdr many[2] = {{message, 0}, {message, 0}};
  walk(SYS_sendmmsg, {3, at(many), 2, 0});
  EXPECT_TRUE(touches(many, sizeof many, true));
  EXPECT_TRUE(touches(data_[0], 200, false));
}

TEST_F(Structures, lengths_behind_pointers) {
  socklen_t length = 16;
  walk(SYS_accept4, {3, at(data_[0]), at(&length), 0});
  EXPECT_TRUE(touches(&length, 4, true));
  EXPECT_TRUE(touches(data_[0], 16, true));
  length = 100000;
  walk(SYS_recvfrom, {3, at(data_[1]), 5, 0, at(data_[0]), at(&length)});
  EXPECT_TRUE(touches(data_[0], 128, true));
  EXPECT_TRUE(touches(data_[1], 5, true));
  length = static_cast<socklen_t>(-1);
  walk(SYS_getsockopt, {3, 1, 3, at(data_[0]), at(&length)});
  EXPECT_EQ(visitor_.ranges.size(), 2U);  // the length only
}

TEST_F(Structures, strings_and_vectors_of_strings) {
  std::string longer(5000, 'x');
  char* vector[] = {data_[0], longer.data(), nullptr};
  walk(SYS_execve, {at("/bin/true"), at(vector), 0});
  std::size_t in_longer = 0;
  for (const Range& range : visitor_.ranges)
    if (range.address >= at(longer.data()) && range.address <= at(longer.data()) + longer.size())
      in_longer += range.bytes;
  EXPECT_GT(in_longer, longer.size());  // with its NUL, to the end of that page
}

TEST_F(Structures, clone_arguments) {
  clone_args arguments{};
  arguments.flags = 0x1000 | 0x100000 | 0x200000;
  arguments.pidfd = at(data_[0]);
  arguments.parent_tid = at(data_[1]);
  arguments.child_tid = at(data_[2]);
  walk(SYS_clone3, {at(&arguments), sizeof arguments});
  EXPECT_TRUE(touches(&arguments, sizeof arguments, false));
  for (const auto& pointer : data_) EXPECT_TRUE(touches(pointer, 4, true));
  arguments.flags = 0;
  walk(SYS_clone3, {at(&arguments), sizeof arguments});
  EXPECT_EQ(visitor_.ranges.size(), 1U);
}

TEST_F(Structures, masks_filters_events_and_interfaces) {
  const void* pair[] = {data_[0], reinterpret_cast<void*>(8)};
  walk(SYS_pselect6, {0, 0, 0, 0, 0, at(pair)});
  EXPECT_TRUE(touches(data_[0], 8, false));
  sock_fprog program{3, reinterpret_cast<sock_filter*>(data_[0])};
  walk(SYS_setsockopt, {3, 1, 26, at(&program), sizeof program});
  EXPECT_TRUE(touches(data_[0], 24, false));
  sigevent event{};
  event.sigev_notify = SIGEV_THREAD;
  event.sigev_value.sival_ptr = data_[1];
  walk(SYS_mq_notify, {3, at(&event)});
  EXPECT_TRUE(touches(data_[1], 32, false));
  ifconf list{};
  list.ifc_len = 80;
  list.ifc_buf = data_[2];
  walk(SYS_ioctl, {3, 0x8912, at(&list)});
  EXPECT_TRUE(touches(data_[2], 80, true));
}

TEST_F(Structures, asynchronous_requests) {
  iocb request{};
  request.aio_lio_opcode = IOCB_CMD_PREAD;
  request.aio_buf = at(data_[0]);
  request.aio_nbytes = 250;
  iocb* list[] = {&request};
  walk(SYS_io_submit, {1, 1, at(list)});
  EXPECT_TRUE(touches(&request, sizeof request, true));
  EXPECT_TRUE(touches(data_[0], 250, true));
}

TEST_F(Structures, memory_of_another_process_is_not_ours) {
  iovec local{data_[0], 100}, remote{data_[1], 100};
  walk(SYS_process_vm_readv, {1, at(&local), 1, at(&remote), 1, 0});
  EXPECT_TRUE(touches(data_[0], 100, true));
  EXPECT_FALSE(touches(data_[1], 100, false));
  visitor_.self = true;
  walk(SYS_process_vm_readv, {1, at(&local), 1, at(&remote), 1, 0});
  EXPECT_TRUE(touches(data_[1], 100, false));
}

TEST_F(Structures, the_limit_is_kept_and_told) {
  std::vector<iovec> vectors(1024, iovec{data_[0], 1});
  const auto result = walk(SYS_writev, {3, at(vectors.data()), 1024}, 100);
  EXPECT_EQ(result.end, Enumeration::End::more);
  EXPECT_EQ(result.ranges, 100U);
  EXPECT_EQ(walk(SYS_writev, {3, at(vectors.data()), 1024}).end, Enumeration::End::complete);
}

TEST_F(Structures, what_cannot_be_read_is_told) {
  visitor_.readable = false;
  iovec vector{data_[0], 100};
  const auto result = walk(SYS_writev, {3, at(&vector), 1});
  EXPECT_FALSE(result.readable);
  EXPECT_EQ(visitor_.ranges.size(), 1U);
}

}  // namespace
}  // namespace comex::syscalls
