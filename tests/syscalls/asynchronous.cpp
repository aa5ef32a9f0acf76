// Calls after which the kernel goes on using the program's memory: AIO and io_uring.
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

#include "syscalls/suite.h"

using namespace suite;

CASE(aio_read) {
  auto* context = place<aio_context_t>();
  EVICTED_OR_SKIP(syscall(SYS_io_setup, 4, context));
  const int fd = make_file("aio", 9000, 61);
  char* buffer = place<char>(9000);
  auto* request = place<iocb>();
  request->aio_fildes = fd;
  request->aio_lio_opcode = IOCB_CMD_PREAD;
  request->aio_buf = reinterpret_cast<std::uint64_t>(buffer);
  request->aio_nbytes = 9000;
  auto* list = place<iocb*>();
  *list = request;
  const long submitted = EVICTED(syscall(SYS_io_submit, *context, 1, list));
  auto* events = place<io_event>(4);
  auto* time = place<timespec>();
  time->tv_sec = 10;
  const long n = EVICTED(syscall(SYS_io_getevents, *context, 1, 4, events, time));
  syscall(SYS_io_destroy, *context);
  result("%ld submitted, %ld done, %lld bytes, digest %08x", submitted, n, (long long)events->res,
         digest(buffer, 9000));
  close(fd);
}

CASE(io_uring_read) {
  auto* parameters = place<io_uring_params>();
  const int ring = static_cast<int>(EVICTED_OR_SKIP(syscall(SYS_io_uring_setup, 4, parameters)));
  const auto map = [ring](std::size_t bytes, off_t offset) {
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, offset);
    check(memory != MAP_FAILED, "mmap");
    return static_cast<char*>(memory);
  };
  const auto& sq = parameters->sq_off;
  const auto& cq = parameters->cq_off;
  const std::size_t sq_bytes = sq.array + parameters->sq_entries * sizeof(unsigned);
  const std::size_t cq_bytes = cq.cqes + parameters->cq_entries * sizeof(io_uring_cqe);
  char *submissions = map(sq_bytes, IORING_OFF_SQ_RING), *completions = map(cq_bytes, IORING_OFF_CQ_RING);
  auto* entries = reinterpret_cast<io_uring_sqe*>(map(parameters->sq_entries * sizeof(io_uring_sqe), IORING_OFF_SQES));
  const int fd = make_file("ring", 9000, 62);
  char* buffer = place<char>(9000);
  entries[0] = {};
  entries[0].opcode = IORING_OP_READ;
  entries[0].fd = fd;
  entries[0].addr = reinterpret_cast<std::uint64_t>(buffer);
  entries[0].len = 9000;
  reinterpret_cast<unsigned*>(submissions + sq.array)[0] = 0;
  reinterpret_cast<std::atomic<unsigned>*>(submissions + sq.tail)->store(1);
  const long n = EVICTED(syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, nullptr, 0));
  const auto* done = reinterpret_cast<io_uring_cqe*>(completions + cq.cqes);
  result("%ld submitted, %d bytes, digest %08x", n, done->res, digest(buffer, 9000));
  munmap(submissions, sq_bytes), munmap(completions, cq_bytes);
  munmap(entries, parameters->sq_entries * sizeof(io_uring_sqe));
  close(fd), close(ring);
}
