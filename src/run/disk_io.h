// Pages between memory and the file of --backup (run/backup/backup_file.h). Frame number i is the i-th page of the
// file.
//
// The file may have to be read and written in whole blocks, past the page cache: local memory is page-aligned.
//
// Thread safety: any thread. Fault path: yes; bare system calls, which libc's names need not be. May set errno. Part of
// the code inside programs.
#pragma once

#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>

#include "base/expected.h"
#include "base/units.h"
#include "fabric/transfer.h"

namespace comex {

// All of the segment, or Errc::io.
inline Errc move_on_disk(int file, Direction direction, const Segment& segment) noexcept {
  std::byte* at = segment.local;
  auto offset = static_cast<off_t>(segment.first.value) << kPageShift;
  std::size_t left = std::size_t{segment.count} << kPageShift;
  while (left > 0) {
    const long moved = syscall(direction == Direction::read ? SYS_pread64 : SYS_pwrite64, file, at, left, offset);
    if (moved < 0 && errno == EINTR) continue;
    if (moved <= 0) return Errc::io;
    at += moved;
    offset += moved;
    left -= static_cast<std::size_t>(moved);
  }
  return Errc::ok;
}

}  // namespace comex
