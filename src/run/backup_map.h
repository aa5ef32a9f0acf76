// Which pages of a program have a copy on its disk (`comex run --backup`). For each chunk (run/chunk_map.h) there are
// two words here, with a bit per home:
//
//   written   set by the process that has written the page to its node, when it has landed; taken by the keeper, which
//             then copies it
//   on_disk   set by the keeper when the copy on the disk is what was written; cleared before the home is anybody
//   else's
//
// The map is a memory file, which the keeper makes and processes map, all of them to write. It exists only where there
// is a backup.
//
// Thread safety: atomics. A bit of on_disk is published with release, after the copy was made: who sees it, with
// acquire, and holds the home, can read the page from the disk. See "A disk as the last resort" in
// docs/design-notes.md.
// Fault path: all of it. Part of the code inside programs.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "run/chunk_map.h"

namespace comex {

struct BackupEntry {
  std::atomic<std::uint64_t> written{0};
  std::atomic<std::uint64_t> on_disk{0};
};
static_assert(sizeof(BackupEntry) == 16);

inline constexpr std::size_t kBackupMapBytes = ChunkMap::kChunks * sizeof(BackupEntry);

}  // namespace comex
