#include "run/runtime/lock_all.h"

#include <sys/mman.h>
#include <sys/syscall.h>

#include <cerrno>

#include "base/own_place.h"
#include "run/runtime/gate_entry.h"
#include "run/runtime/maps.h"
#include "run/runtime/process.h"
#include "run/runtime/real.h"

namespace comex::runtime {
namespace {

constinit Real<int(int)> real_mlockall("mlockall");

// Calls f(begin, bytes) for each mapping that is ours, or for each that is not.
template <typename F>
void for_each_mapping(bool of_ours, F&& f) noexcept {
  Maps maps;
  for (Maps::Mapping mapping; maps.next(mapping);) {
    const bool ours = OwnPlace::has(mapping.begin) || process.own.owns(mapping.begin, mapping.end);
    if (ours == of_ours) f(mapping.begin, mapping.end - mapping.begin);
  }
}

}  // namespace

std::int64_t lock_as_touched(std::uint64_t flags) noexcept {
  const std::int64_t result = comex_gate_call(SYS_mlockall, flags | MCL_ONFAULT, 0, 0, 0, 0, 0);
  if (result < 0 || (flags & MCL_CURRENT) == 0) return result;
  for_each_mapping(
      true, [](std::uint64_t begin, std::uint64_t bytes) { comex_gate_call(SYS_munlock, begin, bytes, 0, 0, 0, 0); });
  return result;
}

void lock_present(std::uint64_t flags) noexcept {
  if ((flags & MCL_CURRENT) == 0) return;
  const std::uint64_t how = (flags & MCL_ONFAULT) != 0 ? MLOCK_ONFAULT : 0;
  // What cannot be there is no error, nor is it one of mlockall().
  for_each_mapping(false, [how](std::uint64_t begin, std::uint64_t bytes) {
    comex_gate_call(SYS_mlock2, begin, bytes, how, 0, 0, 0);
  });
}

}  // namespace comex::runtime

using namespace comex::runtime;

// A dormant process has no gate. One that is awake comes to it by libc's function. What counts is that there are
// addresses of ours: a child that is not watched has no room any more, but has them.
COMEX_TAKEN_OVER int mlockall(int flags) noexcept {
  if (!process.own.is_reserved() || process.pager != nullptr) return real_mlockall(flags);
  const std::int64_t result = lock_as_touched(static_cast<std::uint64_t>(flags));
  if (result >= 0) {
    lock_present(static_cast<std::uint64_t>(flags));
    return 0;
  }
  errno = static_cast<int>(-result);
  return -1;
}
