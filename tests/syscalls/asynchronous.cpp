// Calls after which the kernel goes on using the program's memory: AIO and io_uring.
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>

#include "syscalls/suite.h"

using namespace suite;

CASE_APART(aio_read) {
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

namespace {

struct Ring {
  Ring() : parameters(place<io_uring_params>()) {
    fd = static_cast<int>(EVICTED_OR_SKIP(syscall(SYS_io_uring_setup, 4, parameters)));
    sq_bytes = parameters->sq_off.array + parameters->sq_entries * sizeof(unsigned);
    cq_bytes = parameters->cq_off.cqes + parameters->cq_entries * sizeof(io_uring_cqe);
    submissions = map(sq_bytes, IORING_OFF_SQ_RING), completions = map(cq_bytes, IORING_OFF_CQ_RING);
    entries = reinterpret_cast<io_uring_sqe*>(map(parameters->sq_entries * sizeof(io_uring_sqe), IORING_OFF_SQES));
  }
  ~Ring() {
    munmap(submissions, sq_bytes), munmap(completions, cq_bytes);
    munmap(entries, parameters->sq_entries * sizeof(io_uring_sqe));
    close(fd);
  }
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  char* map(std::size_t bytes, off_t offset) const {
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, offset);
    check(memory != MAP_FAILED, "mmap");
    return static_cast<char*>(memory);
  }
  // The first entry; its turn comes with enter().
  io_uring_sqe& read(std::uint8_t opcode, int from, char* buffer, unsigned bytes) const {
    entries[0] = {};
    entries[0].opcode = opcode;
    entries[0].fd = from;
    entries[0].addr = reinterpret_cast<std::uint64_t>(buffer);
    entries[0].len = bytes;
    reinterpret_cast<unsigned*>(submissions + parameters->sq_off.array)[0] = 0;
    reinterpret_cast<std::atomic<unsigned>*>(submissions + parameters->sq_off.tail)->fetch_add(1);
    return entries[0];
  }
  [[nodiscard]] long enter(unsigned submit, unsigned wait) const {
    return EVICTED(syscall(SYS_io_uring_enter, fd, submit, wait, wait > 0 ? IORING_ENTER_GETEVENTS : 0, nullptr, 0));
  }
  [[nodiscard]] int first_result() const {
    return reinterpret_cast<io_uring_cqe*>(completions + parameters->cq_off.cqes)->res;
  }

  io_uring_params* parameters;
  int fd = -1;
  std::size_t sq_bytes = 0, cq_bytes = 0;
  char *submissions = nullptr, *completions = nullptr;
  io_uring_sqe* entries = nullptr;
};

}  // namespace

CASE_APART(io_uring_read) {
  const Ring ring;
  const int fd = make_file("ring", 9000, 62);
  char* buffer = place<char>(9000);
  ring.read(IORING_OP_READ, fd, buffer, 9000);
  const long n = ring.enter(1, 1);
  result("%ld submitted, %d bytes, digest %08x", n, ring.first_result(), digest(buffer, 9000));
  close(fd);
}

// The kernel writes to registered buffers without asking again where they are.
CASE_APART(io_uring_registered_buffer) {
  const Ring ring;
  const int fd = make_file("fixed", 9000, 63);
  char* buffer = place<char>(9000);
  auto* where = place<iovec>();
  *where = {buffer, 9000};
  EVICTED(syscall(SYS_io_uring_register, ring.fd, IORING_REGISTER_BUFFERS, where, 1));
  evict();
  ring.read(IORING_OP_READ_FIXED, fd, buffer, 9000);
  const long n = ring.enter(1, 1);
  result("%ld submitted, %d bytes, digest %08x", n, ring.first_result(), digest(buffer, 9000));
  close(fd);
}

CASE_APART(io_uring_read_that_waits) {
  const Ring ring;
  int* ends = place<int>(2);
  EVICTED(pipe(ends));
  char* buffer = place<char>(5000);
  ring.read(IORING_OP_READ, ends[0], buffer, 5000);
  const long n = ring.enter(1, 0);
  char* content = place<char>(5000);
  fill(content, 5000, 64);
  EVICTED(write(ends[1], content, 5000));
  (void)ring.enter(0, 1);
  result("%ld submitted, %d bytes, digest %08x", n, ring.first_result(), digest(buffer, 5000));
  close(ends[0]), close(ends[1]);
}

CASE_APART(aio_direct_read) {
  constexpr std::size_t kBytes = 8 * 4096;
  auto* context = place<aio_context_t>();
  EVICTED_OR_SKIP(syscall(SYS_io_setup, 4, context));
  close(make_file("direct", kBytes, 65));
  const int fd = static_cast<int>(EVICTED_OR_SKIP(open(place_path("direct"), O_RDONLY | O_DIRECT)));
  char* buffer = place<char>(kBytes + 4096);
  buffer += 4096 - reinterpret_cast<std::uintptr_t>(buffer) % 4096;
  auto* request = place<iocb>();
  request->aio_fildes = static_cast<unsigned>(fd);
  request->aio_lio_opcode = IOCB_CMD_PREAD;
  request->aio_buf = reinterpret_cast<std::uint64_t>(buffer);
  request->aio_nbytes = kBytes;
  auto* list = place<iocb*>();
  *list = request;
  const long submitted = EVICTED(syscall(SYS_io_submit, *context, 1, list));
  auto* events = place<io_event>(4);
  const long n = EVICTED(syscall(SYS_io_getevents, *context, 1, 4, events, nullptr));
  syscall(SYS_io_destroy, *context);
  result("%ld submitted, %ld done, %lld bytes, digest %08x", submitted, n, (long long)events->res,
         digest(buffer, kBytes));
  close(fd);
}
