// Transfers longer than a tight budget, and of very many parts: one call each, as the program sees it.
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "syscalls/suite.h"

using namespace suite;

namespace {

constexpr std::size_t kLong = std::size_t{24} << 20;

// Memory of its own: more than the suite's area has.
class LongBuffer {
 public:
  LongBuffer() : at_(mmap(nullptr, kLong, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    check(at_ != MAP_FAILED, "mmap");
  }
  ~LongBuffer() { munmap(at_, kLong); }
  LongBuffer(const LongBuffer&) = delete;
  LongBuffer& operator=(const LongBuffer&) = delete;

  char* data() { return static_cast<char*>(at_); }
  void number() {
    for (std::size_t i = 0; i < kLong; i += sizeof(std::uint64_t)) std::memcpy(data() + i, &i, sizeof i);
  }

 private:
  void* at_;
};

// Whether bytes from a place on are as number() has left them.
bool is_numbered(const char* bytes, std::size_t from, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t word = (from + i) / 8 * 8;
    if (bytes[i] != reinterpret_cast<const char*>(&word)[(from + i) % 8]) return false;
  }
  return true;
}

// Reads to the end in another thread, as fast as it can, and checks.
struct Drain {
  int fd = -1;
  std::size_t bytes = 0;
  bool good = true;
  pthread_t thread{};

  explicit Drain(int from) : fd(from) { check(pthread_create(&thread, nullptr, run, this) == 0, "pthread_create"); }
  static void* run(void* which) {
    auto* drain = static_cast<Drain*>(which);
    static thread_local char some[65536];
    for (ssize_t n = 0; (n = read(drain->fd, some, sizeof some)) > 0; drain->bytes += static_cast<std::size_t>(n))
      drain->good = drain->good && is_numbered(some, drain->bytes, static_cast<std::size_t>(n));
    return nullptr;
  }
  void wait() { pthread_join(thread, nullptr); }
};

// Writes numbered bytes in another thread, and closes.
struct Feed {
  int fd = -1;
  pthread_t thread{};

  explicit Feed(int to) : fd(to) { check(pthread_create(&thread, nullptr, run, this) == 0, "pthread_create"); }
  ~Feed() { pthread_join(thread, nullptr); }
  Feed(const Feed&) = delete;
  Feed& operator=(const Feed&) = delete;
  static void* run(void* which) {
    const int fd = static_cast<Feed*>(which)->fd;
    static thread_local std::uint64_t some[8192];
    for (std::size_t at = 0; at < kLong; at += sizeof some) {
      for (std::size_t i = 0; i < 8192; ++i) some[i] = at + i * sizeof some[0];
      for (std::size_t sent = 0; sent < sizeof some;) {
        const ssize_t n = write(fd, reinterpret_cast<const char*>(some) + sent, sizeof some - sent);
        if (n <= 0) return nullptr;
        sent += static_cast<std::size_t>(n);
      }
    }
    close(fd);
    return nullptr;
  }
};

// All of a buffer, in three parts.
msghdr* place_message(char* memory) {
  auto* vectors = place<iovec>(3);
  vectors[0] = {memory, 5000};
  vectors[1] = {memory + 5000, kLong / 2};
  vectors[2] = {memory + 5000 + kLong / 2, kLong / 2 - 5000};
  auto* header = place<msghdr>();
  header->msg_iov = vectors;
  header->msg_iovlen = 3;
  return header;
}

cmsghdr* give_control(msghdr* header) {
  const std::size_t bytes = CMSG_SPACE(sizeof(int));
  header->msg_control = place<std::uint64_t>(bytes / sizeof(std::uint64_t));
  header->msg_controllen = bytes;
  return static_cast<cmsghdr*>(header->msg_control);
}

void connect_pair(int (&ends)[2]) {
  const int listener = static_cast<int>(must(socket(AF_INET, SOCK_STREAM, 0), "socket"));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof address;
  must(bind(listener, reinterpret_cast<sockaddr*>(&address), bytes), "bind");
  must(listen(listener, 1), "listen");
  must(getsockname(listener, reinterpret_cast<sockaddr*>(&address), &bytes), "getsockname");
  ends[1] = static_cast<int>(must(socket(AF_INET, SOCK_STREAM, 0), "socket"));
  must(connect(ends[1], reinterpret_cast<sockaddr*>(&address), bytes), "connect");
  ends[0] = static_cast<int>(must(accept(listener, nullptr, nullptr), "accept"));
  close(listener);
}

template <typename Write>
void write_and_check(const char* what, int from, int to, Write&& write_all) {
  Drain drain(from);
  const long n = write_all(to);
  close(to);
  drain.wait();
  close(from);
  result("%s: %ld written, %zu read, %s", what, n, drain.bytes, drain.good ? "right" : "wrong");
}

}  // namespace

CASE(long_write_to_a_pipe_and_a_socket) {
  LongBuffer buffer;
  buffer.number();
  int ends[2];
  must(pipe(ends), "pipe");
  write_and_check("pipe", ends[0], ends[1], [&](int fd) { return must(write(fd, buffer.data(), kLong), "write"); });
  connect_pair(ends);
  write_and_check("tcp", ends[0], ends[1], [&](int fd) { return must(send(fd, buffer.data(), kLong, 0), "send"); });
}

CASE(long_message_to_a_socket) {
  LongBuffer buffer;
  buffer.number();
  msghdr* header = place_message(buffer.data());
  int ends[2];
  connect_pair(ends);
  write_and_check("tcp", ends[0], ends[1], [&](int fd) { return EVICTED(sendmsg(fd, header, 0)); });
}

CASE(long_message_from_a_socket) {
  LongBuffer buffer;
  msghdr* header = place_message(buffer.data());
  give_control(header);
  int ends[2];
  connect_pair(ends);
  const Feed feed(ends[1]);
  const long n = EVICTED(recvmsg(ends[0], header, MSG_WAITALL));
  result("%ld received, %s, %zu bytes of control, flags %x", n,
         is_numbered(buffer.data(), 0, kLong) ? "right" : "wrong", header->msg_controllen,
         static_cast<unsigned>(header->msg_flags));
  close(ends[0]);
}

// More than there is: a part, and the next call says why.
CASE(long_message_from_a_socket_that_does_not_wait) {
  LongBuffer buffer;
  msghdr* header = place_message(buffer.data());
  int ends[2];
  must(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), "socketpair");
  must(write(ends[1], "0123456789", 10), "write");
  const long n = EVICTED(recvmsg(ends[0], header, MSG_WAITALL | MSG_DONTWAIT));
  const long none = recvmsg(ends[0], header, MSG_WAITALL | MSG_DONTWAIT);
  result("%ld and %ld received, %.10s, %s", n, none, buffer.data(), errno == EAGAIN ? "try again" : "wrong");
  close(ends[0]);
  close(ends[1]);
}

// A descriptor goes with the first byte, and is not sent twice.
CASE(long_message_with_a_descriptor) {
  LongBuffer buffer;
  buffer.number();
  int ends[2], given[2];
  must(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), "socketpair");
  must(pipe(given), "pipe");
  msghdr* header = place_message(buffer.data());
  cmsghdr* control = give_control(header);
  control->cmsg_level = SOL_SOCKET;
  control->cmsg_type = SCM_RIGHTS;
  control->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(control), &given[1], sizeof(int));
  struct Taker {
    int from;
    std::size_t bytes = 0, descriptors = 0;
    bool good = true;
    int last = -1;
    static void* run(void* which) {
      auto* taker = static_cast<Taker*>(which);
      static thread_local char some[65536];
      for (;;) {
        alignas(cmsghdr) char room[CMSG_SPACE(sizeof(int))];
        iovec vector{some, sizeof some};
        msghdr one{};
        one.msg_iov = &vector;
        one.msg_iovlen = 1;
        one.msg_control = room;
        one.msg_controllen = sizeof room;
        const ssize_t n = recvmsg(taker->from, &one, 0);
        if (n <= 0) return nullptr;
        taker->good = taker->good && is_numbered(some, taker->bytes, static_cast<std::size_t>(n));
        taker->bytes += static_cast<std::size_t>(n);
        if (one.msg_controllen == 0) continue;
        ++taker->descriptors;
        std::memcpy(&taker->last, CMSG_DATA(CMSG_FIRSTHDR(&one)), sizeof(int));
      }
    }
  } taker{ends[0]};
  pthread_t thread{};
  check(pthread_create(&thread, nullptr, Taker::run, &taker) == 0, "pthread_create");
  const long n = EVICTED(sendmsg(ends[1], header, MSG_NOSIGNAL));
  close(ends[1]);
  pthread_join(thread, nullptr);
  close(ends[0]);
  char byte = 0;
  must(write(taker.last, "x", 1), "write to what was sent");
  must(read(given[0], &byte, 1), "read");
  result("%ld sent, %zu received, %s, %zu descriptors, %c through it", n, taker.bytes, taker.good ? "right" : "wrong",
         taker.descriptors, byte);
  for (const int fd : {given[0], given[1], taker.last}) close(fd);
}

CASE(long_write_and_read_of_a_file) {
  LongBuffer buffer;
  buffer.number();
  const int fd = static_cast<int>(must(open(place_path("long"), O_RDWR | O_CREAT | O_TRUNC, 0600), "open"));
  const long written = must(write(fd, buffer.data(), kLong), "write");
  std::memset(buffer.data(), 0, kLong);
  const long read_all = must(pread(fd, buffer.data(), kLong, 0), "pread");
  const bool good = is_numbered(buffer.data(), 0, kLong);
  must(lseek(fd, 8192, SEEK_SET), "lseek");
  const long rest = must(read(fd, buffer.data(), kLong), "read");
  result("%ld written, %ld and %ld read, %s", written, read_all, rest, good ? "right" : "wrong");
  close(fd);
}

CASE(long_random_bytes) {
  LongBuffer buffer;
  const long n = must(getrandom(buffer.data(), kLong, 0), "getrandom");
  result("%ld bytes, the last %s", n,
         buffer.data()[kLong - 1] == 0 && buffer.data()[kLong - 2] == 0 ? "zero" : "random");
}

CASE(very_many_vectors) {
  constexpr int kCount = 1024;
  auto* vectors = place<iovec>(kCount);
  LongBuffer buffer;
  buffer.number();
  const int fd = static_cast<int>(must(open(place_path("vectors"), O_RDWR | O_CREAT | O_TRUNC, 0600), "open"));
  std::size_t at = 0;
  for (int i = 0; i < kCount; ++i) {
    const std::size_t bytes = static_cast<std::size_t>(i % 7) * 3001;
    vectors[i] = {buffer.data() + at, bytes};
    at += bytes;
  }
  const long written = EVICTED(writev(fd, vectors, kCount));
  std::memset(buffer.data(), 0, at);
  const long got = EVICTED(preadv(fd, vectors, kCount, 0));
  int ends[2];
  connect_pair(ends);
  write_and_check("tcp", ends[0], ends[1], [&](int to) { return EVICTED(writev(to, vectors, kCount)); });
  result("%ld written, %ld read, %s", written, got, is_numbered(buffer.data(), 0, at) ? "right" : "wrong");
  close(fd);
}
