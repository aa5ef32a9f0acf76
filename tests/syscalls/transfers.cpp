// Transfers longer than a tight budget, and of very many parts: one call each, as the program sees it.
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

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
