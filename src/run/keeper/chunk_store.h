// The chunks of a program (run/chunk_map.h): which frames of nodes each stands for, and which of its homes are free.
// The keeper adds chunks as it takes frames from the pool, hands their homes out to processes, and gives the frames of
// a chunk back to the pool when all its homes are free again.
//
// Which chunk is handed out from: the one with the most free homes. What returns does so page by page, and long runs
// make for few segments in a read. How many free homes there may be beside those in use before no new chunk is made:
// wasteful(). Chunks on disk are apart from the others: their homes are for when there is nothing else.
//
// Where pages are coded, homes are taken in whole columns, and those of a column not again before all of it was given
// back: what is left of it needs the rest, which stays as it was written. See "Coded pages" in docs/design-notes.md.
//
// Thread safety: none; belongs to the keeper's loop.
//
// Invariants:
//  1. A home that was taken is not taken again before it was given back.
//  2. The places of a chunk change by lose(), add_place(), move_place(), drop_place(), add_backup(), drop_backup() and
//     revive() alone, and are given back when no home of it is in use.
//  3. While a chunk is sealed nothing is taken from it, and its places stay.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/expected.h"
#include "base/fd.h"
#include "pool/batch.h"
#include "run/chunk_map.h"

namespace comex {

class ChunkStore {
 public:
  // Where a chunk is.
  enum Kind : std::uint8_t { nodes, disk };
  using GiveBack = std::function<void(const Run&)>;
  using Admits = std::function<bool(ChunkNo)>;

  // Chunks are to have so many places: code.nodes() where there is a code. `give_back` is for frames of nodes. Errc::io
  // if the map cannot be made.
  static Expected<std::unique_ptr<ChunkStore>> make(std::uint32_t copies, GiveBack give_back, Code code = {});
  ~ChunkStore();
  ChunkStore(const ChunkStore&) = delete;
  ChunkStore& operator=(const ChunkStore&) = delete;

  // The map, for a process to read: nobody can map it to write any more.
  [[nodiscard]] Fd file() const { return file_.duplicate(); }

  // A chunk of these places, which are equally long; all its homes are free. Of a code the last may be missing. Nothing
  // if there are too many.
  std::optional<ChunkNo> add(std::span<const Run> places);
  // Free homes in a row, up to `want`, of a chunk that `admits`. What it does not admit is not looked at again before
  // look_again(). Of a code: whole columns. REQUIRES: `want` is.
  std::optional<Run> take(std::uint32_t want, const Admits& admits) { return take_from(Kind::nodes, want, admits); }
  // ... of one that is on disk.
  std::optional<Run> take_on_disk(std::uint32_t want);
  void look_again();
  // REQUIRES: they were taken.
  void give_back(const Run& homes);

  // So many of the homes are free that new chunks would be a waste.
  [[nodiscard]] bool wasteful() const;
  // Of the chunk that take() begins with; 0 if there is none.
  [[nodiscard]] std::uint32_t most_free() const;
  [[nodiscard]] std::uint64_t used() const { return used_[Kind::nodes] + used_[Kind::disk]; }
  [[nodiscard]] std::uint64_t used_on_disk() const { return used_[Kind::disk]; }
  [[nodiscard]] std::uint64_t free() const { return free_[Kind::nodes] + free_[Kind::disk]; }
  // Of a code: homes that nobody holds, and which cannot be taken for the sake of the others in their columns.
  [[nodiscard]] std::uint64_t dead() const { return dead_; }
  // Homes of chunks that have fewer places than they should.
  [[nodiscard]] std::uint64_t thin() const { return thin_; }

  // No chunk has this number, or a higher one.
  [[nodiscard]] std::uint32_t end() const { return static_cast<std::uint32_t>(chunks_.size()); }
  // Where its first home is, in all copies but a backup; none if they are lost. Of a code: the rows that there are.
  [[nodiscard]] Places places(ChunkNo chunk) const;
  // Of a code: where a row begins; nothing if it is missing.
  [[nodiscard]] std::optional<Location> row(ChunkNo chunk, std::uint32_t number) const;
  // Of a code: the row that has this place, or the first that has none. REQUIRES: there is one.
  [[nodiscard]] std::uint32_t find_row(ChunkNo chunk, std::optional<Location> place) const;
  // Whether all that is written to it can be: of a code, if no row of data is missing.
  [[nodiscard]] bool writable(ChunkNo chunk) const;
  // Homes of it; 0 if there is no such chunk.
  [[nodiscard]] std::uint32_t size(ChunkNo chunk) const;
  // Frames of each of its places.
  [[nodiscard]] std::uint32_t length(ChunkNo chunk) const { return size(chunk) / code_.data; }
  [[nodiscard]] std::uint32_t since(ChunkNo chunk) const;
  [[nodiscard]] bool is_on_disk(ChunkNo chunk) const { return at(chunk).kind == Kind::disk; }
  // It has too few places ever to have more.
  [[nodiscard]] bool lost(ChunkNo chunk) const { return at(chunk).lost; }
  // A bit for each home that is taken.
  [[nodiscard]] Slots used_homes(ChunkNo chunk) const { return slots_below(at(chunk).size) & ~at(chunk).free; }
  // Whether this is, or was before it was lost, a place of the chunk.
  [[nodiscard]] bool has_place(ChunkNo chunk, Location first) const;
  // Whether the chunk can get one place more, of whatever kind.
  [[nodiscard]] bool has_room_for_place(ChunkNo chunk) const;

  // A session is lost, and with it the places on it.
  struct Loss {
    std::uint64_t gone = 0;             // homes in use that have no other place, or whose column has lost too many
    std::vector<ChunkNo> fewer_places;  // chunks that have
    std::vector<ChunkNo> backed_up;     // chunks that have not, but a copy of some of their pages on the disk
  };
  Loss lose(NodeId node);

  void seal(ChunkNo chunk);
  void unseal(ChunkNo chunk);
  [[nodiscard]] bool sealed(ChunkNo chunk) const { return at(chunk).sealed; }
  // One place more, on a node; of a code, for that row. Of a chunk that was on disk alone, that becomes its backup.
  // REQUIRES: sealed, and has_room_for_place(), or the row is missing. Those who hear of `since` may use it.
  void add_place(ChunkNo chunk, std::uint32_t row, const Run& place, std::uint32_t since);
  // One place for another, which is as long, and of the same row. The old is the caller's from now on; false if the
  // chunk had it no more, and got one place more. REQUIRES: as add_place().
  bool move_place(ChunkNo chunk, std::uint32_t row, const Run& from, const Run& to, std::uint32_t since);
  // One place less, which is the caller's from now on; false if the chunk had it no more. REQUIRES: sealed, and it has
  // another.
  bool drop_place(ChunkNo chunk, const Run& place);
  // Chunks that have a place in one of these slabs of the node, by their frames there.
  [[nodiscard]] std::vector<ChunkNo> in_slabs(NodeId node, unsigned slab_order,
                                              std::span<const std::uint32_t> slabs) const;
  // The part of the disk that has copies of its pages; nothing if there is none.
  [[nodiscard]] std::optional<Run> backup(ChunkNo chunk) const;
  // REQUIRES: has_room_for_place(), and it has no backup.
  void add_backup(ChunkNo chunk, const Run& part);
  // It is the caller's from now on, who sees to it that nobody reads there. REQUIRES: has a backup, and another place.
  Run drop_backup(ChunkNo chunk);
  // The chunk is on the disk from now on. Its other places are lost, or the caller's.
  // REQUIRES: has a backup, and all homes that are taken, or were written if it is sealed, are there.
  void revive(ChunkNo chunk);

 private:
  static constexpr std::uint32_t kNone = UINT32_MAX;
  static constexpr std::uint32_t kAside = kChunkFrames + 1;  // the list of those that were not admitted
  static constexpr std::uint32_t kNoList = 0;                // without free homes, sealed, or lost

  struct Chunk {
    std::uint64_t free = 0;  // a bit per home
    std::uint32_t next = kNone;
    std::uint32_t before = kNone;
    std::uint8_t list = kNoList;
    std::uint8_t size = 0;  // homes; 0: there is no such chunk
    Kind kind = Kind::nodes;
    bool sealed = false;
    bool lost = false;  // has no place any more, or of a code too few
    bool thin = false;  // has some, and too few
  };

  ChunkStore(std::uint32_t copies, GiveBack give_back, Code code)
      : copies_(copies), code_(code), give_back_(std::move(give_back)) {
    for (auto& heads : heads_) heads.fill(kNone);
  }
  [[nodiscard]] const Chunk& at(ChunkNo chunk) const { return chunks_[chunk.value]; }
  [[nodiscard]] bool whole(const Chunk& chunk) const;
  // The homes that can be taken: those of columns of which nobody holds any.
  [[nodiscard]] Slots open(const Chunk& chunk) const;
  [[nodiscard]] std::uint32_t open_count(const Chunk& chunk) const;
  void set_free(std::uint32_t number, Slots free);
  // Its share of free_ and dead_ comes, or goes.
  void count_free(const Chunk& chunk, bool comes);
  std::optional<Run> take_from(Kind kind, std::uint32_t want, const Admits& admits);
  [[nodiscard]] std::atomic<std::uint64_t>* find_word(ChunkNo chunk, std::uint64_t mask, std::uint64_t value) const;
  // REQUIRES: in no list.
  void change_kind(std::uint32_t number, Kind kind);
  void unlink(std::uint32_t number);
  void link(std::uint32_t number, std::uint32_t list);
  // Into the list it belongs to, or back to the pool.
  void settle(std::uint32_t number);
  void drop(std::uint32_t number);
  void count_places(std::uint32_t number);

  const std::uint32_t copies_;
  const Code code_;
  const GiveBack give_back_;
  Fd file_;
  ChunkEntry* map_ = nullptr;
  std::vector<Chunk> chunks_;
  std::vector<std::uint32_t> unused_;                           // numbers of chunks that were
  std::array<std::array<std::uint32_t, kAside + 1>, 2> heads_;  // by kind
  std::array<std::uint64_t, 2> used_{};                         // homes that were taken
  std::array<std::uint64_t, 2> free_{};  // homes that can be taken, now or when they are admitted
  std::uint64_t dead_ = 0;
  std::uint64_t thin_ = 0;
};

}  // namespace comex
