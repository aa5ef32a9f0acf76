// Where the frames of a program are. The processes of a program know their frames by numbers of the keeper's making:
// homes. 64 of them are a chunk, and for each chunk there is an entry here that says which frames of which nodes it
// stands for: its places, one per copy. So a copy can be made, or go, without a word to the page tables.
//
//   home:     | chunk 0 | chunk 1 | ...                 Location{kHome, number}
//   entry:      flags; since; free; places: {node, first frame}, up to three
//
// Where pages are coded (pool/code.h) the places of a chunk are those of its rows: data, then parity. `data` homes that
// follow one another are a column, one of each row, with the parity at the same place of its own:
//
//                 column 0   column 1 ...
//   row 0         home 0     home 4         frames f, f + 1, ... of a node
//   row 1         home 1     home 5
//   row 2         home 2     home 6
//   row 3         home 3     home 7
//   parity        p          p'
//
// The keeper writes the map, in a memory file; processes map it to read. The file is as large as all entries that can
// ever be, and takes memory for those that are.
//
// Thread safety: one writer; readers in any number of processes, without a lock. An entry is made before a process
// hears of a frame of it (the socket orders the two), and from then on changes only so that every state of it on the
// way is a right one: see "Copies" in docs/design-notes.md.
// Fault path: all that reads. Part of the code inside programs.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "pool/batch.h"
#include "pool/frames.h"
#include "pool/location.h"

namespace comex {

inline constexpr std::uint32_t kChunkFrames = kBatchPages;
inline constexpr unsigned kChunkOrder = 6;
static_assert(kChunkFrames == 1U << kChunkOrder);

// The one node that homes are on.
inline constexpr NodeId kHome{0};

// Where a home is in a chunk whose pages are coded; without a code there is one row.
struct Cell {
  std::uint32_t row = 0;
  std::uint32_t column = 0;
};
constexpr Cell cell_of(FrameNo home, Code code) {
  const std::uint32_t offset = home.value % kChunkFrames;
  return Cell{offset % code.data, offset / code.data};
}
// Frames of one place of a chunk that has all the homes it can.
constexpr std::uint32_t most_columns(Code code) {
  return kChunkFrames / code.data;
}

struct ChunkNo {
  std::uint32_t value = 0;
  friend constexpr auto operator<=>(ChunkNo, ChunkNo) = default;
};
constexpr ChunkNo chunk_of(FrameNo home) {
  return ChunkNo{home.value >> kChunkOrder};
}
constexpr FrameNo first_home(ChunkNo chunk) {
  return FrameNo{chunk.value << kChunkOrder};
}

struct ChunkEntry {
  // A place: whether there is one (bit 63), of which kind (bits 62, 61), its node and its first frame.
  static constexpr std::uint64_t kThere = std::uint64_t{1} << 63;
  // Not there when the chunk was made: who holds frames of the chunk can use it once it has heard of `since`.
  static constexpr std::uint64_t kLate = std::uint64_t{1} << 62;
  // A copy on the disk, made behind everybody's back: only the keeper writes it, and a page can be read there if
  // run/backup_map.h says so.
  static constexpr std::uint64_t kBackup = std::uint64_t{1} << 61;
  static constexpr std::uint32_t kSealed = 1;  // nobody begins to write there

  std::atomic<std::uint32_t> flags{0};
  std::atomic<std::uint32_t> since{0};
  std::atomic<std::uint64_t> free{0};  // where pages are coded: the homes that nobody holds, about
  std::array<std::atomic<std::uint64_t>, kMostPlaces> places{};

  static constexpr std::uint64_t encode(Location at, bool late) {
    return kThere | (late ? kLate : 0) | std::uint64_t{at.node.value} << 32 | at.frame.value;
  }
  // REQUIRES: the place is there. That of the frame at `offset` there.
  static constexpr Location decode(std::uint64_t place, std::uint32_t offset) {
    return Location{NodeId{static_cast<std::uint16_t>(place >> 32)},
                    FrameNo{static_cast<std::uint32_t>(place) + offset}};
  }
};
// A line of the processor's cache.
static_assert(sizeof(ChunkEntry) == 64 && std::atomic<std::uint64_t>::is_always_lock_free);

class ChunkMap {
 public:
  static constexpr std::uint32_t kChunks = 1U << 24;  // 4 TiB of homes; 1 GiB of addresses
  static constexpr std::uint32_t kFrames = kChunks << kChunkOrder;
  static constexpr std::size_t kBytes = kChunks * sizeof(ChunkEntry);

  // Whether it is a run of homes, within a chunk.
  static constexpr bool holds(const Run& run) {
    return run.node == kHome && run.count > 0 && run.first.value < kFrames &&
           (run.first.value & (kChunkFrames - 1)) + std::uint64_t{run.count} <= kChunkFrames;
  }
};

}  // namespace comex
