// What the gate knows about a system call before it lets the program make it: which of its arguments lead to memory,
// how much of it the kernel reads or writes there, and how the call has to be treated.
//
// Under `comex run` a system call that meets a page which is away fails with EFAULT. The gate therefore makes all the
// memory of a call resident first. This table is the knowledge; syscall_ranges.h turns a call into ranges with it.
//
//   entry(number)        one Entry per x86-64 call of Linux 6.18; an unknown number gets an entry of Class::unknown
//   Entry::memory        the arguments that lead to memory, each a Memory
//   Entry::operations    for fcntl, prctl, futex ...: the family whose operations have memory of their own
//
// Everything is constant data. Thread safety: any thread. Fault path, signal handlers: yes; no allocation, no libc.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace comex::syscalls {

constexpr std::size_t kArguments = 6;

struct Call {
  std::uint64_t number = 0;
  std::array<std::uint64_t, kArguments> arguments{};
};

// As the kernel sees it: `in` is read by the kernel, `out` written, `inout` both.
enum class Direction : std::uint8_t { in, out, inout };

// How far the memory behind an argument goes. What "by", "size" and "extra" of a Memory mean depends on it.
enum class Extent : std::uint8_t {
  none,
  fixed,         // size bytes
  bytes,         // as many bytes as argument `by` says, and extra
  elements,      // as many elements of size bytes as argument `by` says; more than extra of them (if not 0) is an error
  string,        // up to a NUL, size bytes at most
  strings,       // argv: a vector of pointers to strings, ended by NULL
  socklen,       // as many bytes as the 32-bit number that argument `by` points to says; times size; at most extra
  self_sized,    // as many bytes as the 32-bit number at offset `by` of the structure says (size if 0), and extra
  counted,       // as many elements of size bytes as the 32-bit number at offset `by` of the structure says, and extra
  fd_set,        // a bit per descriptor, argument `by` of them, in 64-bit words
  node_mask,     // a bit per NUMA node, argument `by` of them and one less, in 64-bit words
  pages,         // a byte per page that argument `by` bytes span
  iovec,         // `by` iovecs (or size of them) and what they describe
  iovec_only,    // `by` iovecs, which describe memory that is not touched
  remote_iovec,  // `by` iovecs; what they describe is touched only if argument 0 is this process
  message,       // msghdr
  messages,      // `by` mmsghdrs
  mask_pair,     // pselect6, io_pgetevents: a pointer to a signal mask, and its size
  filter,        // sock_fprog: a count and a pointer to a BPF program
  event,         // sigevent, whose value points to 32 bytes if it asks for a thread (mq_notify)
  clone,         // clone_args of `by` bytes
  waiters,       // `by` futex_waitvs, or size of them
  xattr,         // xattr_args of `by` bytes: a pointer and a size
  aio,           // `by` pointers to iocbs
  ring_wait,     // io_uring_getevents_arg of `by` bytes
  if_list,       // ifconf: a size and a pointer
  capability,    // 12 or 24 bytes: the version behind argument `by` says
  guess,         // size bytes; more lies behind pointers in it that the table does not know
};

// The C type of the argument that holds a length: the kernel ignores the upper half of a 32-bit one.
enum class Width : std::uint8_t { word, unsigned_int, signed_int };

struct Memory {
  Extent extent = Extent::none;
  Direction direction = Direction::in;
  std::uint8_t argument = 0;
  std::uint8_t by = 0;
  Width width = Width::word;
  std::uint32_t size = 0;
  std::uint32_t extra = 0;
};

enum class Class : std::uint8_t {
  plain,       // arguments only
  layout,      // changes what is mapped, or locks it
  task,        // makes or ends a thread or process, or replaces the program
  signal,      // signal actions, masks and stacks
  lasting,     // the kernel keeps a reference to the program's memory beyond the call
  descriptor,  // may close or number descriptors, of which the runtime has its own
  unknown,     // not in the table: every argument that could be an address is taken for one
};

// Whether a long transfer may be made in several; syscall_pieces.h says under which conditions.
enum class Cut : std::uint8_t {
  never,
  at_offset,  // pread64 and its kin: the next piece goes to the next offset
  by_file,    // read, write, readv, writev: depends on what the descriptor is
  by_socket,  // send and receive: stream sockets only
  shorter,    // the caller has to take a smaller answer as it comes: getdents64, epoll_wait
  repeated,   // the pieces one after the other are the whole: getrandom, mincore
};

enum class Trait : std::uint8_t {
  none = 0,
  blocks = 1,      // may wait for longer than a disk takes
  repeatable = 2,  // when it fails with EFAULT, nothing has happened that a second go would do twice or lose
};
constexpr Trait operator|(Trait a, Trait b) {
  return static_cast<Trait>(static_cast<std::uint8_t>(a) | static_cast<std::uint8_t>(b));
}
constexpr bool operator&(Trait a, Trait b) {
  return (static_cast<std::uint8_t>(a) & static_cast<std::uint8_t>(b)) != 0;
}

// Calls whose memory depends on an operation among their arguments; see syscall_operations.h.
enum class Family : std::uint8_t {
  none,
  fcntl,
  ioctl,
  prctl,
  arch_prctl,
  futex,
  keyctl,
  quotactl,
  quotactl_fd,
  semctl,
  msgctl,
  shmctl,
  ptrace,
  seccomp,
  setsockopt,
  getsockopt,
  syslog,
  modify_ldt,
  fsconfig,
  landlock,
  kcmp,
  reboot,
  sysfs,
  ring_enter,
  clone,
};

constexpr std::size_t kMemories = 5;

struct Entry {
  std::uint16_t number = 0;
  const char* name = nullptr;
  Class kind = Class::unknown;
  Memory memory[kMemories] = {};
  Trait traits = Trait::none;
  Cut cut = Cut::never;
  Family operations = Family::none;
};

// One more than the highest number in the table.
constexpr std::size_t kEntries = 472;

// Never fails: a number that is not in the table gets the entry of unknown calls, whose name is "unknown".
const Entry& entry(std::uint64_t number) noexcept;

// The class of this very call: as the entry says, unless the arguments make it another (fcntl(F_DUPFD) is of class
// descriptor, a send with MSG_ZEROCOPY lasting).
Class class_of(const Call& call) noexcept;

}  // namespace comex::syscalls
