// Reading, writing and moving data between files and pipes.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cstring>

#include "syscalls/suite.h"

using namespace suite;

namespace {

constexpr std::size_t kLong = 3 * 4096 + 100;

std::array<int, 2> make_pipe() {
  int* ends = place<int>(2);
  EVICTED(pipe2(ends, O_CLOEXEC));
  return {ends[0], ends[1]};
}

void write_to_pipe(void* fd) {
  static char data[8192];
  fill(data, sizeof data, 7);
  check(write(*static_cast<int*>(fd), data, sizeof data) == sizeof data, "write");
}

// Vectors in evicted memory, over three buffers of odd lengths.
iovec* make_vectors(std::uint32_t seed) {
  iovec* vectors = place<iovec>(3);
  for (int i = 0; i < 3; ++i) {
    vectors[i].iov_len = 1000 + 3000 * i;
    vectors[i].iov_base = place<char>(vectors[i].iov_len);
    if (seed != 0) fill(vectors[i].iov_base, vectors[i].iov_len, seed + i);
  }
  return vectors;
}

std::uint32_t digest_of(const iovec* vectors) {
  std::uint32_t all = 0;
  for (int i = 0; i < 3; ++i) all = all * 31 + digest(vectors[i].iov_base, vectors[i].iov_len);
  return all;
}

}  // namespace

CASE(read_pipe_while_blocked) {
  auto ends = make_pipe();
  char* buffer = place<char>(8192);
  Later writer(write_to_pipe, &ends[1]);
  const long n = EVICTED(read(ends[0], buffer, 8192));
  result("%ld bytes, digest %08x", n, digest(buffer, n));
  close(ends[0]), close(ends[1]);
}

CASE(readv_pipe_while_blocked) {
  auto ends = make_pipe();
  iovec* vectors = make_vectors(0);
  Later writer(write_to_pipe, &ends[1]);
  const long n = EVICTED(readv(ends[0], vectors, 3));
  result("%ld bytes, digest %08x", n, digest_of(vectors));
  close(ends[0]), close(ends[1]);
}

CASE(read_write_file) {
  const int fd = make_file("plain", 0, 0);
  char* data = place<char>(kLong);
  fill(data, kLong, 3);
  const long written = EVICTED(write(fd, data, kLong));
  char* back = place<char>(kLong);
  lseek(fd, 0, SEEK_SET);
  const long n = EVICTED(read(fd, back, kLong));
  check(std::memcmp(data, back, kLong) == 0, "other data came back");
  result("%ld written, %ld read, digest %08x", written, n, digest(back, kLong));
  close(fd);
}

CASE(pread_pwrite) {
  const int fd = make_file("positions", 20000, 5);
  char* data = place<char>(5000);
  fill(data, 5000, 6);
  const long written = EVICTED(pwrite(fd, data, 5000, 4000));
  char* back = place<char>(20000);
  const long n = EVICTED(pread(fd, back, 20000, 100));
  result("%ld written, %ld read, digest %08x", written, n, digest(back, n));
  close(fd);
}

CASE(readv_writev_file) {
  const int fd = make_file("vectors", 0, 0);
  iovec* data = make_vectors(11);
  const long written = EVICTED(writev(fd, data, 3));
  iovec* back = make_vectors(0);
  lseek(fd, 0, SEEK_SET);
  const long n = EVICTED(readv(fd, back, 3));
  check(digest_of(data) == digest_of(back), "other data came back");
  result("%ld written, %ld read, digest %08x", written, n, digest_of(back));
  close(fd);
}

CASE(preadv_pwritev) {
  const int fd = make_file("vectors_at", 0, 0);
  iovec* data = make_vectors(12);
  const long written = EVICTED(pwritev(fd, data, 3, 777));
  iovec* back = make_vectors(0);
  const long n = EVICTED(preadv(fd, back, 3, 777));
  check(digest_of(data) == digest_of(back), "other data came back");
  result("%ld written, %ld read", written, n);
  close(fd);
}

CASE(preadv2_pwritev2) {
  const int fd = make_file("vectors_at2", 0, 0);
  iovec* data = make_vectors(13);
  const long written = EVICTED(pwritev2(fd, data, 3, 5, 0));
  iovec* back = make_vectors(0);
  const long n = EVICTED(preadv2(fd, back, 3, 5, 0));
  check(digest_of(data) == digest_of(back), "other data came back");
  result("%ld written, %ld read", written, n);
  close(fd);
}

CASE(write_from_mapped_file) {
  const int from = make_file("mapped", 3 * 4096, 8);
  void* mapped = mmap(nullptr, 3 * 4096, PROT_READ, MAP_PRIVATE, from, 0);
  check(mapped != MAP_FAILED, "mmap");
  const int to = make_file("copy", 0, 0);
  const long n = EVICTED(write(to, static_cast<char*>(mapped) + 100, 8000));
  char* back = place<char>(8000);
  EVICTED(pread(to, back, 8000, 0));
  result("%ld bytes, digest %08x", n, digest(back, 8000));
  munmap(mapped, 3 * 4096);
  close(from), close(to);
}

CASE(write_longer_than_most) {
  constexpr std::size_t kMany = std::size_t{4} << 20;
  const int fd = make_file("long", 0, 0);
  char* data = place<char>(kMany);
  fill(data, kMany, 9);
  const auto sum = digest(data, kMany);
  const long written = EVICTED(write(fd, data, kMany));
  std::memset(data, 0, kMany);
  const long n = EVICTED(pread(fd, data, kMany, 0));
  check(sum == digest(data, kMany), "other data came back");
  result("%ld written, %ld read, digest %08x", written, n, sum);
  close(fd);
}

CASE(sendfile_with_offset) {
  const int from = make_file("sent", 10000, 14), to = make_file("received", 0, 0);
  off_t* offset = place<off_t>();
  *offset = 1000;
  const long n = EVICTED(sendfile(to, from, offset, 5000));
  result("%ld bytes, offset %ld", n, static_cast<long>(*offset));
  close(from), close(to);
}

CASE(copy_file_range_with_offsets) {
  const int from = make_file("source", 10000, 15), to = make_file("target", 0, 0);
  off64_t *in = place<off64_t>(), *out = place<off64_t>();
  *in = 123;
  const long n = EVICTED(copy_file_range(from, in, to, out, 6000, 0));
  result("%ld bytes, offsets %ld and %ld", n, static_cast<long>(*in), static_cast<long>(*out));
  close(from), close(to);
}

CASE(splice_and_tee) {
  const int from = make_file("spliced", 8000, 16), to = make_file("splice_target", 0, 0);
  auto first = make_pipe(), second = make_pipe();
  off64_t *in = place<off64_t>(), *out = place<off64_t>();
  *in = 10;
  const long moved = EVICTED(splice(from, in, first[1], nullptr, 4000, 0));
  const long doubled = EVICTED(tee(first[0], second[1], 4000, 0));
  const long landed = EVICTED(splice(second[0], nullptr, to, out, 4000, 0));
  result("%ld in, %ld doubled, %ld out, offsets %ld and %ld", moved, doubled, landed, static_cast<long>(*in),
         static_cast<long>(*out));
  for (const int fd : {from, to, first[0], first[1], second[0], second[1]}) close(fd);
}

CASE(vmsplice_to_pipe) {
  auto ends = make_pipe();
  iovec* vectors = make_vectors(17);
  const auto sum = digest_of(vectors);
  const long n = EVICTED(vmsplice(ends[1], vectors, 3, 0));
  iovec* back = make_vectors(0);
  EVICTED(readv(ends[0], back, 3));
  check(sum == digest_of(back), "other data came back");
  result("%ld bytes, digest %08x", n, sum);
  close(ends[0]), close(ends[1]);
}

CASE(memfd_by_name) {
  const int fd = static_cast<int>(EVICTED(memfd_create(place_string("a name across pages"), MFD_CLOEXEC)));
  char* data = place<char>(6000);
  fill(data, 6000, 18);
  const long n = EVICTED(write(fd, data, 6000));
  result("%ld bytes", n);
  close(fd);
}

CASE(file_locks) {
  const int fd = make_file("locked", 100, 19);
  struct flock* lock = place<struct flock>();
  lock->l_type = F_WRLCK;
  lock->l_len = 10;
  EVICTED(fcntl(fd, F_SETLK, lock));
  EVICTED(fcntl(fd, F_GETLK, lock));
  result("type %d", lock->l_type);
  close(fd);
}

// The kernel does not wait for pages there. More than a tight budget has room for, a piece that crosses pages at a
// time.
CASE(own_memory_as_a_file) {
  constexpr std::size_t kBytes = std::size_t{24} << 20, kPiece = 6000, kPieces = kBytes / kPiece;
  const int fd = static_cast<int>(must(open("/proc/self/mem", O_RDWR | O_CLOEXEC), "open"));
  void* const memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  check(memory != MAP_FAILED, "mmap");
  auto* const data = static_cast<char*>(memory);
  char* const piece = place<char>(kPiece);
  const auto address = [&](std::size_t at) { return static_cast<off_t>(reinterpret_cast<std::uintptr_t>(data + at)); };
  for (std::size_t i = 0; i < kPieces; ++i) fill(data + i * kPiece, kPiece, static_cast<std::uint32_t>(i));
  // It may end where a page does.
  const auto all = [&](const char* what, auto&& transfer) {
    for (std::size_t done = 0; done < kPiece;) done += static_cast<std::size_t>(must(transfer(done), what));
  };
  int wrong = 0;
  for (std::size_t i = 0; i < kPieces; ++i) {
    const std::size_t begin = i * kPiece;
    if (i % 2 == 0) {
      all("pread", [&](std::size_t at) { return pread(fd, piece + at, kPiece - at, address(begin + at)); });
    } else {
      must(lseek(fd, address(begin), SEEK_SET), "lseek");
      all("read", [&](std::size_t at) { return syscall(SYS_read, fd, piece + at, kPiece - at); });
    }
    const auto sum = digest(piece, kPiece);
    fill(piece, kPiece, static_cast<std::uint32_t>(i));
    wrong += sum != digest(piece, kPiece);
    fill(piece, kPiece, static_cast<std::uint32_t>(i + kPieces));
    if (i % 2 == 0) {
      all("pwrite", [&](std::size_t at) { return pwrite(fd, piece + at, kPiece - at, address(begin + at)); });
    } else {
      must(lseek(fd, address(begin), SEEK_SET), "lseek");
      all("write", [&](std::size_t at) { return write(fd, piece + at, kPiece - at); });
    }
  }
  for (std::size_t i = 0; i < kPieces; ++i) {
    fill(piece, kPiece, static_cast<std::uint32_t>(i + kPieces));
    wrong += digest(piece, kPiece) != digest(data + i * kPiece, kPiece);
  }
  result("%d of %zu wrong", wrong, 2 * kPieces);
  munmap(memory, kBytes);
  close(fd);
}
