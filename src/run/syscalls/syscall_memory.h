// Words to describe the memory of a system call with, for the tables: `out_by(1, 2)` is "the kernel writes to argument
// 1 as many bytes as argument 2 says". Arguments count from 0.
#pragma once

#include <cstdint>

#include "run/syscalls/syscall_table.h"

namespace comex::syscalls {

using Argument = std::uint8_t;

constexpr std::uint32_t kPathMax = 4096;

constexpr Memory in(Argument at, std::uint32_t bytes) {
  return {Extent::fixed, Direction::in, at, 0, {}, bytes, 0};
}
constexpr Memory out(Argument at, std::uint32_t bytes) {
  return {Extent::fixed, Direction::out, at, 0, {}, bytes, 0};
}
constexpr Memory inout(Argument at, std::uint32_t bytes) {
  return {Extent::fixed, Direction::inout, at, 0, {}, bytes, 0};
}

constexpr Memory string(Argument at, std::uint32_t limit) {
  return {Extent::string, {}, at, 0, {}, limit, 0};
}
constexpr Memory path(Argument at) {
  return string(at, kPathMax);
}
constexpr Memory strings(Argument at) {
  return {Extent::strings, {}, at, 0, {}, 0, 0};
}

constexpr Memory in_by(Argument at, Argument by, Width width = Width::word, std::uint32_t extra = 0) {
  return {Extent::bytes, Direction::in, at, by, width, 0, extra};
}
constexpr Memory out_by(Argument at, Argument by, Width width = Width::word, std::uint32_t extra = 0) {
  return {Extent::bytes, Direction::out, at, by, width, 0, extra};
}
constexpr Memory inout_by(Argument at, Argument by, Width width = Width::word) {
  return {Extent::bytes, Direction::inout, at, by, width, 0, 0};
}

// `most`: a greater count is an error, so nothing is touched.
constexpr Memory in_array(Argument at, Argument by, std::uint32_t size, Width width = Width::word,
                          std::uint32_t most = 0) {
  return {Extent::elements, Direction::in, at, by, width, size, most};
}
constexpr Memory out_array(Argument at, Argument by, std::uint32_t size, Width width = Width::word,
                           std::uint32_t most = 0) {
  return {Extent::elements, Direction::out, at, by, width, size, most};
}
constexpr Memory inout_array(Argument at, Argument by, std::uint32_t size, Width width = Width::word,
                             std::uint32_t most = 0) {
  return {Extent::elements, Direction::inout, at, by, width, size, most};
}

// The buffer whose length lies behind argument `by`; the length itself is a Memory of its own: length(by).
constexpr Memory out_socklen(Argument at, Argument by, std::uint32_t most = 0) {
  return {Extent::socklen, Direction::out, at, by, {}, 1, most};
}
constexpr Memory length(Argument at) {
  return inout(at, 4);
}
// A socket address has 128 bytes at most.
constexpr std::uint32_t kAddressMax = 128;
constexpr Memory address_out(Argument at, Argument by) {
  return out_socklen(at, by, kAddressMax);
}

constexpr Memory self_sized(Direction direction, Argument at, std::uint8_t offset, std::uint32_t if_zero,
                            std::uint32_t extra = 0) {
  return {Extent::self_sized, direction, at, offset, {}, if_zero, extra};
}

// An extent that needs no more than where it is and, for some, how many.
constexpr Memory as(Extent extent, Direction direction, Argument at, Argument by = 0, Width width = Width::word) {
  return {extent, direction, at, by, width, 0, 0};
}
constexpr Memory iovec_in(Argument at, Argument by) {
  return as(Extent::iovec, Direction::in, at, by);
}
constexpr Memory iovec_out(Argument at, Argument by) {
  return as(Extent::iovec, Direction::out, at, by);
}
constexpr Memory descriptor_set(Argument at) {
  return as(Extent::fd_set, Direction::inout, at, 0, Width::signed_int);
}
constexpr Memory guess(Argument at, std::uint32_t bytes) {
  return {Extent::guess, Direction::inout, at, 0, {}, bytes, 0};
}

// Structures of the kernel's interface on x86-64, as it copies them.
namespace bytes_of {
constexpr std::uint32_t number = 4, word = 8, sigset = 8, timespec = 16, timeval = 16, itimer = 32, stat = 144,
                        statfs = 120, statx = 256, rusage = 144, rlimit = 16, siginfo = 128, sigaction = 32,
                        sigstack = 24, sigevent = 64, timex = 208, mq_attr = 64, utsname = 390, sysinfo = 112, tms = 32,
                        pollfd = 8, epoll_event = 12, io_event = 32, iocb = 64, flock = 32;
}  // namespace bytes_of

}  // namespace comex::syscalls
