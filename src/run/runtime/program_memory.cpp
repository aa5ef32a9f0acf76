#include "run/runtime/program_memory.h"

#include <sys/syscall.h>
#include <sys/uio.h>

#include "run/runtime/faults.h"
#include "run/runtime/gate_entry.h"
#include "run/runtime/process.h"

namespace comex::runtime {
namespace {

bool copy(std::uint64_t call, std::uint64_t address, void* ours, std::size_t bytes, bool write) noexcept {
  if (bytes == 0) return true;
  const PageRun pages = PageRun::of(address, bytes);
  if (pages.count == 0) return false;
  PinFrame pins(*process.threads, *this_thread());
  pins.add(pages);
  settle(pages, write);
  const iovec mine{ours, bytes};
  const iovec theirs{reinterpret_cast<void*>(address), bytes};
  // By the number of this thread: that of the process is its first thread's, which may have ended.
  const auto self = static_cast<std::uint64_t>(comex_gate_call(SYS_gettid, 0, 0, 0, 0, 0, 0));
  return comex_gate_call(call, self, reinterpret_cast<std::uint64_t>(&mine), 1,
                         reinterpret_cast<std::uint64_t>(&theirs), 1, 0) == static_cast<std::int64_t>(bytes);
}

}  // namespace

bool copy_in(std::uint64_t address, void* to, std::size_t bytes) noexcept {
  return copy(SYS_process_vm_readv, address, to, bytes, false);
}

bool copy_out(std::uint64_t address, const void* from, std::size_t bytes) noexcept {
  return copy(SYS_process_vm_writev, address, const_cast<void*>(from), bytes, true);
}

}  // namespace comex::runtime
