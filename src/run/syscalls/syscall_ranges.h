// From a system call to the memory that the kernel will read and write for it.
//
//   call ──> table ──> enumerate ──> Visitor::range(array of iovecs)     "make this resident"
//                         ^    └──> Visitor::read(array of iovecs)
//                         └─ iovecs ─┘   └──> Visitor::range(what iovec 0 describes) ...
//
// What the ranges promise:
//  1. A structure that leads to more comes before what it leads to, and is read only after range() returned true.
//  2. All the memory the kernel touches for the call is in the ranges, as far as the table knows it
//  (Enumeration::exact).
//  3. There may be more in them than the kernel touches: a string's range goes to the end of the page that it ends in,
//     a receive buffer may be filled in part, what is beyond the program's memory is announced all the same. Ranges may
//     overlap and repeat.
//  4. Nothing above user memory: where an argument leads there the kernel says EFAULT by itself. Nor what belongs to
//     arguments that the kernel refuses before it touches anything (too many iovecs, a negative length).
//  5. No range is longer than the kernel moves in one call (kMaxTransfer).
//
// Thread safety: any thread, each with a visitor of its own. Fault path, signal handlers: yes; allocates nothing, calls
// nothing but the visitor, needs less than 2 KiB of stack.
#pragma once

#include <cstddef>
#include <cstdint>

#include "run/syscalls/syscall_table.h"

namespace comex::syscalls {

// MAX_RW_COUNT of the kernel.
constexpr std::size_t kMaxTransfer = 0x7FFFF000;
// The end of user memory with four-level page tables, less the page that is kept free there.
constexpr std::uintptr_t kUserEnd = 0x7FFFFFFFF000;
// Enough for every call but a sendmmsg of many long messages, or the arguments of an enormous execve.
constexpr std::uint32_t kDefaultRanges = 8192;

struct Range {
  std::uintptr_t address = 0;
  std::size_t bytes = 0;
  bool kernel_writes = false;
};

class Visitor {
 public:
  // Memory of the call; true once it is resident, false to stop the enumeration. It need not be the program's memory,
  // nor mapped at all.
  virtual bool range(const Range& range) noexcept = 0;
  // Copies what has been announced by range(); false if it cannot be read. Must not fault whatever the address.
  virtual bool read(std::uintptr_t address, void* destination, std::size_t bytes) noexcept = 0;
  // Whether a process number, as the program would use it, is the program's own.
  virtual bool is_self(std::uint64_t process) noexcept = 0;

 protected:
  ~Visitor() = default;
};

struct Enumeration {
  enum class End : std::uint8_t {
    complete,
    refused,  // range() returned false
    more,     // the limit was reached: there is memory that was not announced
  };
  End end = End::complete;
  // False if a structure could not be read: what it leads to is not announced, and the kernel will say EFAULT.
  bool readable = true;
  // False if the table does not know all that the call touches and has announced what looked like addresses.
  bool exact = true;
  std::uint32_t ranges = 0;
};

Enumeration enumerate(const Call& call, Visitor& visitor, std::uint32_t limit = kDefaultRanges) noexcept;

}  // namespace comex::syscalls
