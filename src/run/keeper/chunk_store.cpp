#include "run/keeper/chunk_store.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "run/keeper_wire.h"

namespace comex {
namespace {

constexpr std::uint64_t kLittle = 4'096;  // homes: up to 16 MiB of free ones are no waste, nor is one for each
constexpr std::uint64_t kShare = 4;       // ... four that are used; of coded ones, which are to save memory,
constexpr std::uint64_t kCodedShare = 8;  // ... eight

constexpr std::uint64_t bits_of(std::uint32_t first, std::uint32_t count) {
  return slots_below(count) << first;
}

struct Stretch {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
};

// The longest there is. REQUIRES: not 0.
Stretch longest(std::uint64_t bits) {
  Stretch best;
  std::uint32_t at = 0;
  while (bits != 0) {
    const auto gap = static_cast<std::uint32_t>(std::countr_zero(bits));
    bits >>= gap;
    at += gap;
    const auto count = static_cast<std::uint32_t>(std::countr_one(bits));
    if (count > best.count) best = {at, count};
    bits = count < 64 ? bits >> count : 0;
    at += count;
  }
  return best;
}

}  // namespace

Expected<std::unique_ptr<ChunkStore>> ChunkStore::make(std::uint32_t copies, GiveBack give_back, Code code) {
  std::unique_ptr<ChunkStore> store(new ChunkStore(copies, std::move(give_back), code));
  store->file_ = Fd(memfd_create("comex-chunks", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!store->file_ || ftruncate(store->file_.get(), ChunkMap::kBytes) != 0) return system_error("cannot make the map");
  void* const map =
      mmap(nullptr, ChunkMap::kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, store->file_.get(), 0);
  if (map == MAP_FAILED) return system_error("cannot map the map");
  store->map_ = static_cast<ChunkEntry*>(map);
  constexpr int kSeals = F_SEAL_FUTURE_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL;
  if (fcntl(store->file_.get(), F_ADD_SEALS, kSeals) != 0) return system_error("cannot seal the map");
  return store;
}

ChunkStore::~ChunkStore() {
  if (map_ != nullptr) munmap(map_, ChunkMap::kBytes);
}

// --- lists ---

void ChunkStore::unlink(std::uint32_t number) {
  Chunk& chunk = chunks_[number];
  if (chunk.list == kNoList) return;
  (chunk.before == kNone ? heads_[chunk.kind][chunk.list] : chunks_[chunk.before].next) = chunk.next;
  if (chunk.next != kNone) chunks_[chunk.next].before = chunk.before;
  chunk.next = chunk.before = kNone;
  chunk.list = kNoList;
}

void ChunkStore::link(std::uint32_t number, std::uint32_t list) {
  Chunk& chunk = chunks_[number];
  chunk.list = static_cast<std::uint8_t>(list);
  if (list == kNoList) return;
  std::uint32_t& head = heads_[chunk.kind][list];
  chunk.next = head;
  if (chunk.next != kNone) chunks_[chunk.next].before = number;
  head = number;
}

bool ChunkStore::whole(const Chunk& chunk) const {
  return chunk.free == slots_below(chunk.size);
}

Slots ChunkStore::open(const Chunk& chunk) const {
  if (!code_.coded()) return chunk.free;
  Slots all = chunk.free;  // from this home on, as many as a column has are free
  for (std::uint32_t row = 1; row < code_.data; ++row) all &= chunk.free >> row;
  Slots open = 0;
  for (std::uint32_t first = 0; first < chunk.size; first += code_.data) {
    if ((all >> first & 1) != 0) open |= bits_of(first, code_.data);
  }
  return open;
}

std::uint32_t ChunkStore::open_count(const Chunk& chunk) const {
  return static_cast<std::uint32_t>(std::popcount(open(chunk)));
}

void ChunkStore::count_free(const Chunk& chunk, bool comes) {
  if (chunk.lost) return;
  const std::uint64_t open = open_count(chunk);
  const std::uint64_t dead = static_cast<std::uint64_t>(std::popcount(chunk.free)) - open;
  free_[chunk.kind] += comes ? open : -open;
  dead_ += comes ? dead : -dead;
}

void ChunkStore::set_free(std::uint32_t number, Slots free) {
  Chunk& chunk = chunks_[number];
  count_free(chunk, false);
  chunk.free = free;
  count_free(chunk, true);
  if (code_.coded()) map_[number].free.store(free, std::memory_order_relaxed);
}

void ChunkStore::settle(std::uint32_t number) {
  Chunk& chunk = chunks_[number];
  if (chunk.sealed) return;
  if (whole(chunk)) return drop(number);
  if (chunk.list == kAside) return;
  unlink(number);
  if (!chunk.lost) link(number, open_count(chunk));
}

void ChunkStore::drop(std::uint32_t number) {
  unlink(number);
  Chunk& chunk = chunks_[number];
  const Places was = places(ChunkNo{number});
  if (const auto part = backup(ChunkNo{number})) give_back_(*part);
  for (std::uint32_t i = 0; i < was.count; ++i) {
    give_back_(Run{was.at[i].node, was.at[i].frame, length(ChunkNo{number})});
  }
  count_free(chunk, false);
  if (chunk.thin) thin_ -= chunk.size;
  chunk = Chunk{};
  unused_.push_back(number);
}

// --- homes ---

std::optional<ChunkNo> ChunkStore::add(std::span<const Run> places) {
  std::uint32_t number = static_cast<std::uint32_t>(chunks_.size());
  if (!unused_.empty()) {
    number = unused_.back();
    unused_.pop_back();
  } else if (number == ChunkMap::kChunks) {
    return std::nullopt;
  } else {
    chunks_.emplace_back();
  }
  ChunkEntry& entry = map_[number];
  for (std::size_t i = 0; i < entry.places.size(); ++i) {
    const bool there = i < places.size();
    entry.places[i].store(there ? ChunkEntry::encode(places[i].at(0), false) : 0, std::memory_order_relaxed);
  }
  entry.since.store(0, std::memory_order_relaxed);
  entry.flags.store(0, std::memory_order_relaxed);
  Chunk& chunk = chunks_[number];
  chunk.size = static_cast<std::uint8_t>(places.front().count * code_.data);
  chunk.kind = places.front().node == keeper_wire::kDisk ? Kind::disk : Kind::nodes;
  set_free(number, slots_below(chunk.size));
  link(number, chunk.size);
  count_places(number);
  return ChunkNo{number};
}

std::optional<Run> ChunkStore::take_on_disk(std::uint32_t want) {
  return take_from(Kind::disk, want, [](ChunkNo) { return true; });
}

std::optional<Run> ChunkStore::take_from(Kind kind, std::uint32_t want, const Admits& admits) {
  for (std::uint32_t list = kChunkFrames; list > 0; --list) {
    while (heads_[kind][list] != kNone) {
      const std::uint32_t number = heads_[kind][list];
      unlink(number);
      if (!admits(ChunkNo{number})) {
        link(number, kAside);
        continue;
      }
      Chunk& chunk = chunks_[number];
      const Stretch stretch = longest(open(chunk));
      const std::uint32_t count = std::min(want, stretch.count);
      set_free(number, chunk.free & ~bits_of(stretch.first, count));
      used_[kind] += count;
      link(number, open_count(chunk));
      return Run{kHome, first_home(ChunkNo{number}) + stretch.first, count};
    }
  }
  return std::nullopt;
}

void ChunkStore::look_again() {
  while (heads_[Kind::nodes][kAside] != kNone) {
    const std::uint32_t number = heads_[Kind::nodes][kAside];
    unlink(number);
    link(number, open_count(chunks_[number]));
  }
}

void ChunkStore::give_back(const Run& homes) {
  for_each_slab(homes.extent(), kChunkOrder, [&](std::uint32_t number, std::uint32_t first, std::uint32_t count) {
    const Chunk& chunk = chunks_[number];
    set_free(number, chunk.free | bits_of(first, count));
    used_[chunk.kind] -= count;
    settle(number);
    return true;
  });
}

bool ChunkStore::wasteful() const {
  const std::uint64_t used = used_[Kind::nodes];
  return free_[Kind::nodes] > std::max(kLittle, used / (code_.coded() ? kCodedShare : kShare));
}

std::uint32_t ChunkStore::most_free() const {
  for (std::uint32_t list = kChunkFrames; list > 0; --list) {
    if (heads_[Kind::nodes][list] != kNone) return list;
  }
  return 0;
}

// --- places ---

Places ChunkStore::places(ChunkNo chunk) const {
  Places places;
  if (at(chunk).lost && !code_.coded()) return places;
  for (const auto& word : map_[chunk.value].places) {
    const std::uint64_t place = word.load(std::memory_order_relaxed);
    if ((place & ChunkEntry::kThere) == 0 || (place & ChunkEntry::kBackup) != 0) continue;
    places.at[places.count++] = ChunkEntry::decode(place, 0);
  }
  return places;
}

std::optional<Location> ChunkStore::row(ChunkNo chunk, std::uint32_t number) const {
  const std::uint64_t place = map_[chunk.value].places[number].load(std::memory_order_relaxed);
  if ((place & ChunkEntry::kThere) == 0) return std::nullopt;
  return ChunkEntry::decode(place, 0);
}

std::uint32_t ChunkStore::find_row(ChunkNo chunk, std::optional<Location> place) const {
  std::uint32_t number = 0;
  while (number + 1 < copies_ && row(chunk, number) != place) ++number;
  return number;
}

bool ChunkStore::writable(ChunkNo chunk) const {
  for (std::uint32_t number = 0; code_.coded() && number < code_.data; ++number) {
    if (!row(chunk, number)) return false;
  }
  return true;
}

// The first of which these bits are so; nullptr if there is none.
std::atomic<std::uint64_t>* ChunkStore::find_word(ChunkNo chunk, std::uint64_t mask, std::uint64_t value) const {
  for (auto& word : map_[chunk.value].places) {
    if ((word.load(std::memory_order_relaxed) & mask) == value) return &word;
  }
  return nullptr;
}

bool ChunkStore::has_place(ChunkNo chunk, Location first) const {
  constexpr std::uint64_t kKind = ChunkEntry::kLate | ChunkEntry::kBackup;
  return size(chunk) > 0 && find_word(chunk, ~kKind, ChunkEntry::encode(first, false)) != nullptr;
}

bool ChunkStore::has_room_for_place(ChunkNo chunk) const {
  return find_word(chunk, ChunkEntry::kThere, 0) != nullptr;
}

std::optional<Run> ChunkStore::backup(ChunkNo chunk) const {
  const auto* const word = find_word(chunk, ChunkEntry::kBackup, ChunkEntry::kBackup);
  if (word == nullptr) return std::nullopt;
  const Location first = ChunkEntry::decode(word->load(std::memory_order_relaxed), 0);
  return Run{first.node, first.frame, kChunkFrames};
}

void ChunkStore::add_backup(ChunkNo chunk, const Run& part) {
  find_word(chunk, ChunkEntry::kThere, 0)
      ->store(ChunkEntry::encode(part.at(0), false) | ChunkEntry::kBackup, std::memory_order_release);
}

Run ChunkStore::drop_backup(ChunkNo chunk) {
  const Run part = *backup(chunk);
  find_word(chunk, ChunkEntry::kBackup, ChunkEntry::kBackup)->store(0, std::memory_order_release);
  return part;
}

void ChunkStore::change_kind(std::uint32_t number, Kind kind) {
  Chunk& chunk = chunks_[number];
  const std::uint32_t used = chunk.size - static_cast<std::uint32_t>(std::popcount(chunk.free));
  count_free(chunk, false);
  used_[chunk.kind] -= used;
  chunk.kind = kind;
  chunk.lost = false;
  used_[kind] += used;
  count_free(chunk, true);
}

// At every moment of it the map says of a home that is taken where it is.
void ChunkStore::revive(ChunkNo chunk) {
  auto* const word = find_word(chunk, ChunkEntry::kBackup, ChunkEntry::kBackup);
  word->fetch_and(~ChunkEntry::kBackup, std::memory_order_release);
  for (auto& other : map_[chunk.value].places) {
    if (&other != word) other.store(0, std::memory_order_release);
  }
  change_kind(chunk.value, Kind::disk);
  count_places(chunk.value);
  settle(chunk.value);
}

void ChunkStore::count_places(std::uint32_t number) {
  Chunk& chunk = chunks_[number];
  const std::uint32_t count = places(ChunkNo{number}).count;
  const bool thin = !chunk.lost && count < copies_ && chunk.kind == Kind::nodes;
  if (thin != chunk.thin) thin_ += thin ? chunk.size : -std::uint64_t{chunk.size};
  chunk.thin = thin;
}

std::uint32_t ChunkStore::size(ChunkNo chunk) const {
  return chunk.value < chunks_.size() ? at(chunk).size : 0;
}

std::uint32_t ChunkStore::since(ChunkNo chunk) const {
  return map_[chunk.value].since.load(std::memory_order_relaxed);
}

ChunkStore::Loss ChunkStore::lose(NodeId node) {
  Loss loss;
  for (std::uint32_t number = 0; number < chunks_.size(); ++number) {
    Chunk& chunk = chunks_[number];
    if (chunk.size == 0 || chunk.lost) continue;
    std::atomic<std::uint64_t>* on_it = nullptr;
    for (auto& word : map_[number].places) {
      const std::uint64_t place = word.load(std::memory_order_relaxed);
      if ((place & ChunkEntry::kThere) != 0 && ChunkEntry::decode(place, 0).node == node) on_it = &word;
    }
    if (on_it == nullptr) continue;
    if (places(ChunkNo{number}).count > code_.data) {
      on_it->store(0, std::memory_order_release);
      count_places(number);
      loss.fewer_places.push_back(ChunkNo{number});
      continue;
    }
    // The entry stays as it is: by it a process knows which node had its page. Of a code it has the other rows, whose
    // pages can still be read.
    if (code_.coded()) on_it->store(0, std::memory_order_release);
    loss.gone += chunk.size - static_cast<std::uint32_t>(std::popcount(chunk.free));
    count_free(chunk, false);
    chunk.lost = true;
    if (backup(ChunkNo{number})) loss.backed_up.push_back(ChunkNo{number});
    count_places(number);
    unlink(number);
    settle(number);
  }
  return loss;
}

void ChunkStore::seal(ChunkNo chunk) {
  unlink(chunk.value);
  chunks_[chunk.value].sealed = true;
  map_[chunk.value].flags.store(ChunkEntry::kSealed, std::memory_order_seq_cst);
}

void ChunkStore::unseal(ChunkNo chunk) {
  map_[chunk.value].flags.store(0, std::memory_order_release);
  chunks_[chunk.value].sealed = false;
  settle(chunk.value);
}

void ChunkStore::add_place(ChunkNo chunk, std::uint32_t row, const Run& place, std::uint32_t since) {
  // Before the place: who sees the place sees since when it may be used.
  map_[chunk.value].since.store(since, std::memory_order_relaxed);
  auto* const old = is_on_disk(chunk) ? find_word(chunk, ChunkEntry::kThere, ChunkEntry::kThere) : nullptr;
  auto* const free = code_.coded() ? &map_[chunk.value].places[row] : find_word(chunk, ChunkEntry::kThere, 0);
  free->store(ChunkEntry::encode(place.at(0), true), std::memory_order_release);
  if (old != nullptr) {
    old->fetch_or(ChunkEntry::kBackup, std::memory_order_release);
    change_kind(chunk.value, Kind::nodes);
  }
  count_places(chunk.value);
}

bool ChunkStore::move_place(ChunkNo chunk, std::uint32_t row, const Run& from, const Run& to, std::uint32_t since) {
  ChunkEntry& entry = map_[chunk.value];
  for (auto& word : entry.places) {
    const std::uint64_t place = word.load(std::memory_order_relaxed);
    if ((place & ChunkEntry::kThere) == 0 || ChunkEntry::decode(place, 0) != from.at(0)) continue;
    entry.since.store(since, std::memory_order_relaxed);
    word.store(ChunkEntry::encode(to.at(0), true), std::memory_order_release);
    return true;
  }
  add_place(chunk, row, to, since);
  return false;
}

bool ChunkStore::drop_place(ChunkNo chunk, const Run& place) {
  for (const bool late : {false, true}) {
    auto* const word = find_word(chunk, ~std::uint64_t{0}, ChunkEntry::encode(place.at(0), late));
    if (word == nullptr) continue;
    word->store(0, std::memory_order_release);
    count_places(chunk.value);
    return true;
  }
  return false;
}

std::vector<ChunkNo> ChunkStore::in_slabs(NodeId node, unsigned slab_order,
                                          std::span<const std::uint32_t> slabs) const {
  std::vector<std::pair<std::uint32_t, ChunkNo>> found;
  for (std::uint32_t number = 0; number < chunks_.size(); ++number) {
    if (chunks_[number].size == 0) continue;
    const Places its = places(ChunkNo{number});
    for (std::uint32_t i = 0; i < its.count; ++i) {
      const std::uint32_t frame = its.at[i].frame.value;
      if (its.at[i].node != node || std::find(slabs.begin(), slabs.end(), frame >> slab_order) == slabs.end()) continue;
      found.emplace_back(frame, ChunkNo{number});
    }
  }
  std::sort(found.begin(), found.end());
  std::vector<ChunkNo> chunks;
  for (const auto& [frame, chunk] : found) chunks.push_back(chunk);
  return chunks;
}

}  // namespace comex
