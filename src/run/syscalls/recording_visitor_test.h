// A visitor for tests: notes what it is told, and reads either real memory or a constant byte.
#pragma once

#include <sys/uio.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "run/syscalls/syscall_ranges.h"

namespace comex::syscalls {

class RecordingVisitor final : public Visitor {
 public:
  std::vector<Range> ranges;
  bool readable = true;
  bool real = false;  // addresses are of this process
  int fill = 0;       // what everything reads as if not
  std::size_t refuse_after = SIZE_MAX;
  bool self = false;
  bool read_before_announced = false;

  bool range(const Range& range) noexcept override {
    ranges.push_back(range);
    return ranges.size() < refuse_after;
  }
  bool read(std::uintptr_t address, void* destination, std::size_t bytes) noexcept override {
    if (!announced(address, bytes)) read_before_announced = true;
    if (!readable) return false;
    if (!real) {
      std::memset(destination, fill, bytes);
      return true;
    }
    // By the kernel: it does not fault, and a sanitizer does not mind that a string is read to the end of its page.
    const iovec to{destination, bytes}, from{reinterpret_cast<void*>(address), bytes};
    return process_vm_readv(getpid(), &to, 1, &from, 1, 0) == static_cast<ssize_t>(bytes);
  }
  bool is_self(std::uint64_t) noexcept override { return self; }

 private:
  [[nodiscard]] bool announced(std::uintptr_t address, std::size_t bytes) const {
    for (const Range& range : ranges)
      if (address >= range.address && address + bytes <= range.address + range.bytes) return true;
    return false;
  }
};

}  // namespace comex::syscalls
