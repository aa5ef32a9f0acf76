#include "run/runtime/numbers.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

namespace comex::runtime {
namespace {

// The last part of where such a link leads, if that is a number: PID, or PID/task/TID.
std::uint32_t read_number(const char* link) noexcept {
  char target[64];
  const ssize_t length = readlink(link, target, sizeof target - 1);
  if (length <= 0) return 0;
  target[length] = 0;
  const char* const slash = std::strrchr(target, '/');
  return static_cast<std::uint32_t>(std::strtoul(slash != nullptr ? slash + 1 : target, nullptr, 10));
}

dev_t device_of_proc() noexcept {
  struct stat found {};
  return stat("/proc", &found) == 0 ? found.st_dev : 0;
}

}  // namespace

void Numbers::begin() noexcept {
  proc_ = device_of_proc();
  const std::uint32_t number = read_number("/proc/self");
  same_ = number == 0 || number == static_cast<std::uint32_t>(getpid());
}

// Who comes into another namespace has a parent outside of it, which has no number there.
void Numbers::after_fork() noexcept {
  same_ = same_ && getppid() != 0;
}

std::uint32_t Numbers::of_process() const noexcept {
  if (same_) return static_cast<std::uint32_t>(getpid());
  return device_of_proc() == proc_ ? read_number("/proc/self") : 0;
}

std::uint32_t Numbers::of_this_thread() const noexcept {
  if (same_) return static_cast<std::uint32_t>(gettid());
  return device_of_proc() == proc_ ? read_number("/proc/thread-self") : 0;
}

}  // namespace comex::runtime
