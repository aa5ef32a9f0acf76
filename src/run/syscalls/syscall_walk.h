// The walk over one call's memory: what syscall_ranges.cpp (arguments) and syscall_structures.cpp (structures that
// lead to more) share. Nobody else includes this.
//
// Every step returns whether to go on: false once the visitor refused or the limit is reached.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "run/syscalls/syscall_ranges.h"

namespace comex::syscalls {

constexpr std::size_t kPage = 4096;

class Walk {
 public:
  Walk(const Call& call, Visitor& visitor, std::uint32_t limit) noexcept
      : call_(call), visitor_(visitor), limit_(limit) {}

  [[nodiscard]] Enumeration result() const noexcept { return result_; }

  bool memory(const Memory& memory) noexcept;
  // Every argument that could be an address, a page each.
  bool guess_arguments() noexcept;

 private:
  using Address = std::uint64_t;

  // syscall_ranges.cpp
  bool range(Address address, std::uint64_t bytes, bool kernel_writes) noexcept;
  bool string(Address address, std::size_t limit) noexcept;
  bool pointers(Address vector) noexcept;
  bool guess(Address address, std::size_t bytes, Direction direction) noexcept;
  bool guess_page(Address address) noexcept;
  bool structure(const Memory& memory) noexcept;
  [[nodiscard]] std::uint64_t argument(std::uint8_t at) const noexcept { return call_.arguments[at]; }
  // The number in argument `by`; nothing if it is negative.
  [[nodiscard]] std::optional<std::uint64_t> count(const Memory& memory) const noexcept;
  [[nodiscard]] std::optional<std::uint64_t> bytes(const Memory& memory) noexcept;

  // syscall_structures.cpp
  bool iovecs(Address array, std::uint64_t count, bool described, bool kernel_writes) noexcept;
  bool message(Address header, bool receives) noexcept;
  bool messages(Address array, std::uint64_t count, bool receives) noexcept;
  bool waiters(Address array, std::uint64_t count) noexcept;
  bool clone_arguments(Address address, std::uint64_t bytes) noexcept;
  bool requests(Address vector, std::uint64_t count) noexcept;
  bool request(Address iocb) noexcept;
  bool mask_pair(Address address) noexcept;
  bool filter(Address address) noexcept;
  bool event(Address address) noexcept;
  bool xattr(Address address, std::uint64_t bytes, bool kernel_writes) noexcept;
  bool ring_wait(Address address, std::uint64_t bytes) noexcept;
  bool interface_list(Address address) noexcept;
  bool capability(const Memory& memory) noexcept;

  // Reads a T; says so in the result if it cannot.
  template <typename T>
  bool read(Address address, T& value, std::size_t bytes = sizeof(T)) noexcept {
    if (address < kUserEnd && bytes <= kUserEnd - address && visitor_.read(address, &value, bytes)) return true;
    result_.readable = false;
    return false;
  }
  // Announces a T that the kernel reads, then reads it. Nothing: look at go_on().
  template <typename T>
  std::optional<T> fetch(Address address, bool kernel_writes = false) noexcept {
    T value{};
    if (address == 0 || !range(address, sizeof(T), kernel_writes) || !read(address, value)) return std::nullopt;
    return value;
  }
  [[nodiscard]] bool go_on() const noexcept { return result_.end == Enumeration::End::complete; }

  // Calls step(element) for each T of an array that has been announced, reading some at a time.
  template <typename T, typename Step>
  bool for_each(Address array, std::uint64_t count, Step&& step) noexcept {
    constexpr std::size_t kAtOnce = std::max<std::size_t>(1, 256 / sizeof(T));
    std::array<T, kAtOnce> some;
    for (std::uint64_t done = 0; done < count; done += kAtOnce) {
      const std::size_t now = std::min<std::uint64_t>(kAtOnce, count - done);
      if (!read(array + done * sizeof(T), some, now * sizeof(T))) return true;
      for (std::size_t i = 0; i < now; ++i)
        if (!step(some[i])) return false;
    }
    return true;
  }

  const Call& call_;
  Visitor& visitor_;
  const std::uint32_t limit_;
  Enumeration result_;
};

}  // namespace comex::syscalls
