#include "run/runtime/memory_file.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <string_view>

#include "base/units.h"
#include "run/runtime/gate_entry.h"

namespace comex::runtime {
namespace {

constexpr std::uint64_t kMost = 64 * kPageSize;

// What a descriptor is a descriptor of: "/proc/4711/mem", or "/proc/4711/task/4712/mem".
bool is_own_memory(std::uint64_t descriptor) noexcept {
  constexpr std::string_view kFolder = "/proc/thread-self/fd/";
  constexpr std::string_view kProcesses = "/proc/";
  std::array<char, 64> link{};
  kFolder.copy(link.data(), kFolder.size());
  std::to_chars(link.data() + kFolder.size(), link.data() + link.size() - 1, static_cast<std::uint32_t>(descriptor));
  std::array<char, 64> target{};
  const std::int64_t length = comex_gate_call(SYS_readlink, reinterpret_cast<std::uint64_t>(link.data()),
                                              reinterpret_cast<std::uint64_t>(target.data()), target.size(), 0, 0, 0);
  if (length <= 0) return false;
  std::string_view name(target.data(), static_cast<std::size_t>(length));
  if (!name.starts_with(kProcesses) || !name.ends_with("/mem")) return false;
  name.remove_prefix(kProcesses.size());
  std::uint32_t number = 0;
  std::from_chars(name.data(), name.data() + name.size(), number);
  return number == static_cast<std::uint32_t>(comex_gate_call(SYS_getpid, 0, 0, 0, 0, 0, 0));
}

}  // namespace

std::optional<syscalls::Range> touched_as_file(const syscalls::Call& call) noexcept {
  const auto& a = call.arguments;
  const bool positioned = call.number == SYS_pread64 || call.number == SYS_pwrite64;
  const bool writes = call.number == SYS_write || call.number == SYS_pwrite64;
  if (!positioned && !writes && call.number != SYS_read) return std::nullopt;
  if (!is_own_memory(a[0])) return std::nullopt;
  const std::int64_t at =
      positioned ? static_cast<std::int64_t>(a[3]) : comex_gate_call(SYS_lseek, a[0], 0, SEEK_CUR, 0, 0, 0);
  if (at < 0) return std::nullopt;
  return syscalls::Range{static_cast<std::uintptr_t>(at), std::min<std::uint64_t>(a[2], kMost), writes};
}

}  // namespace comex::runtime
