#include "run/lifeline.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>

#include <string>

#include "base/units.h"

namespace comex {

Expected<Lifeline> Lifeline::make() {
  Lifeline line;
  line.probe_ = Fd(::memfd_create("comex-lifeline", MFD_CLOEXEC));
  if (!line.probe_ || ::ftruncate(line.probe_.get(), kPageSize) != 0) return system_error("cannot make a memory file");
  // Opened, not duplicated: the lock belongs to the description.
  line.end_ = Fd(::open(("/proc/self/fd/" + std::to_string(line.probe_.get())).c_str(), O_RDONLY | O_CLOEXEC));
  if (!line.end_) return system_error("cannot open a memory file by /proc/self/fd");
  if (::flock(line.end_.get(), LOCK_EX | LOCK_NB) != 0) return system_error("cannot lock a memory file");
  return line;
}

bool Lifeline::held() const {
  if (end_) return true;
  if (::flock(probe_.get(), LOCK_EX | LOCK_NB) != 0) return true;
  ::flock(probe_.get(), LOCK_UN);
  return false;
}

}  // namespace comex
