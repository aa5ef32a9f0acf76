#include "run/backup/backup_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/units.h"
#include "run/disk_io.h"

namespace comex {
namespace {

Error refuse(const std::string& folder, int error) {
  return Error{Errc::invalid, fmt::format("--backup {}: {}; name a folder on a disk with room that you may write to",
                                          folder, std::strerror(error))};
}

// Without O_TMPFILE it has a name for a moment.
Fd open_unnamed(const std::string& folder, int flags) {
  Fd file(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC | flags, 0600));
  if (file || (errno != EOPNOTSUPP && errno != EISDIR)) return file;
  std::string name = folder + "/.comex-backup-XXXXXX";
  file = Fd(::mkostemp(name.data(), O_CLOEXEC | flags));
  if (file) ::unlink(name.c_str());
  return file;
}

bool works(const BackupFile& file) {
  alignas(kPageSize) std::byte page[kPageSize]{};
  const Segment segment{FrameNo{0}, 1, page};
  return file.move(Direction::write, segment) == Errc::ok && file.move(Direction::read, segment) == Errc::ok;
}

}  // namespace

Expected<BackupFile> BackupFile::make(const std::string& folder) {
  int error = 0;
  for (const bool direct : {true, false}) {
    BackupFile file(open_unnamed(folder, direct ? O_DIRECT : 0), direct);
    if (file.file_ && works(file)) return file;
    error = errno;
    if (error != EINVAL) break;  // EINVAL: not past the page cache
  }
  return refuse(folder, error);
}

Expected<void> BackupFile::reserve(std::uint64_t bytes) {
  const auto size = static_cast<off_t>(bytes);
  int result = -1;
  do {
    result = ::fallocate(file_.get(), 0, 0, size);
  } while (result != 0 && errno == EINTR);
  if (result != 0 && errno == EOPNOTSUPP) result = ::ftruncate(file_.get(), size);
  if (result != 0) return system_error("no more room");
  return {};
}

void BackupFile::tidy() const {
  if (!direct_) (void)::posix_fadvise(file_.get(), 0, 0, POSIX_FADV_DONTNEED);
}

Errc BackupFile::move(Direction direction, const Segment& segment) const {
  return move_on_disk(file_.get(), direction, segment);
}

Expected<std::uint64_t> usual_backup_size(const std::string& folder) {
  struct statvfs disk {};
  if (::statvfs(folder.c_str(), &disk) != 0) return refuse(folder, errno);
  return std::uint64_t{disk.f_bavail} * disk.f_frsize / 2;
}

}  // namespace comex
