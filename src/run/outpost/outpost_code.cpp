// Pages that are coded across nodes: where they are, and how one is had whose node does not answer. See "Coded pages"
// in docs/design-notes.md.
#include <bit>

#include "run/outpost/outpost.h"

namespace comex {

// --- places ---

// Whether the page of a row can be made of the others in its column.
bool Outpost::can_make(const ChunkEntry& entry, std::uint32_t row) const noexcept {
  std::uint32_t others = 0;
  for (std::uint32_t i = 0; i < code_.nodes(); ++i) {
    const std::uint64_t place = entry.places[i].load(std::memory_order_acquire);
    others += i != row && (place & ChunkEntry::kThere) != 0 && usable(entry, place);
  }
  return others >= code_.data;
}

Location Outpost::coded_place_of(Location home) const noexcept {
  const ChunkEntry& entry = entry_of(home.frame);
  const Cell cell = cell_of(home.frame, code_);
  const std::uint64_t place = entry.places[cell.row].load(std::memory_order_acquire);
  const bool there = (place & ChunkEntry::kThere) != 0;
  if (there && usable(entry, place)) return ChunkEntry::decode(place, cell.column);
  if (can_make(entry, cell.row)) return Location{kMade, home.frame};
  // A transfer will find out why not.
  return there && has_heard_of(entry, place) ? ChunkEntry::decode(place, cell.column) : Location{kNowhere, {}};
}

// All rows of data must be there, and whatever is there must answer: a column is written whole.
Places Outpost::coded_places_of(Location home) const noexcept {
  const ChunkEntry& entry = entry_of(home.frame);
  const Cell cell = cell_of(home.frame, code_);
  if (entry.flags.load(std::memory_order_seq_cst) != 0) return {};
  Places places;
  for (std::uint32_t i = 0; i < code_.nodes(); ++i) {
    const std::uint64_t place = entry.places[i].load(std::memory_order_acquire);
    const bool there = (place & ChunkEntry::kThere) != 0;
    if (there ? !usable(entry, place) : i < code_.data) return {};
    if (i == cell.row) places = {{ChunkEntry::decode(place, cell.column)}, 1};
  }
  return places;
}

Places Outpost::parity_of(Location home) const noexcept {
  const ChunkEntry& entry = entry_of(home.frame);
  const Cell cell = cell_of(home.frame, code_);
  Places places;
  for (; places.count < code_.parity; ++places.count) {
    const std::uint64_t place = entry.places[code_.data + places.count].load(std::memory_order_acquire);
    const bool there = (place & ChunkEntry::kThere) != 0;
    places.at[places.count] = there ? ChunkEntry::decode(place, cell.column) : Location{kNowhere, {}};
  }
  return places;
}

Places Outpost::coded_readable_places(Location home) const noexcept {
  const ChunkEntry& entry = entry_of(home.frame);
  const Cell cell = cell_of(home.frame, code_);
  Places places;
  const std::uint64_t place = entry.places[cell.row].load(std::memory_order_acquire);
  if ((place & ChunkEntry::kThere) != 0 && usable(entry, place)) {
    places.at[places.count++] = ChunkEntry::decode(place, cell.column);
  }
  if (can_make(entry, cell.row)) places.at[places.count++] = Location{kMade, home.frame};
  return places;
}

// Half of the column or more is held by nobody, and yet of use to nobody else while this page is there.
bool Outpost::is_worn(Location home) const noexcept {
  if (!tidies()) return false;
  const Cell cell = cell_of(home.frame, code_);
  const std::uint64_t free = entry_of(home.frame).free.load(std::memory_order_relaxed) >> cell.column * code_.data;
  return 2 * static_cast<std::uint32_t>(std::popcount(free & slots_below(code_.data))) >= code_.data;
}

// ok if it can be read, or made; fenced if so many are lost that it never can be.
Errc Outpost::coded_state_of(const ChunkEntry& entry, const PlaceWords& words, FrameNo home) const noexcept {
  const Cell cell = cell_of(home, code_);
  std::uint32_t usable_others = 0;
  std::uint32_t left_others = 0;  // that may be back
  Errc own = Errc::fenced;
  for (std::uint32_t i = 0; i < code_.nodes(); ++i) {
    if ((words[i] & ChunkEntry::kThere) == 0) continue;
    const Errc state = state_of(entry, words[i]);
    if (i == cell.row) own = state;
    if (i == cell.row) continue;
    usable_others += state == Errc::ok;
    left_others += state != Errc::fenced;
  }
  if (own == Errc::ok || usable_others >= code_.data) return Errc::ok;
  return own == Errc::fenced && left_others < code_.data ? Errc::fenced : Errc::disconnected;
}

// --- pages ---

// Pages of one row of one chunk, to be made together: each of the other rows that it takes is read once.
struct Outpost::Making {
  ChunkNo chunk;
  std::uint32_t row = 0;
  std::uint32_t count = 0;
  std::array<std::uint32_t, Workrooms::kColumns> columns;
  std::array<std::byte*, Workrooms::kColumns> into;
};

// Of each page, by its home, which is what the segments name.
void Outpost::make(Transfer& transfer) noexcept {
  transfer.begin();
  Errc result = transfer.direction == Direction::read ? Errc::ok : Errc::invalid;
  Making making;
  const auto flush = [&] {
    if (making.count > 0 && result == Errc::ok) result = make(making);
    making.count = 0;
  };
  for (const Segment& segment : transfer.segments) {
    for (std::uint32_t i = 0; i < segment.count; ++i) {
      const FrameNo home = segment.first + i;
      const Cell cell = cell_of(home, code_);
      const bool same = making.chunk == chunk_of(home) && making.row == cell.row;
      if (!same || making.count == Workrooms::kColumns) flush();
      making.chunk = chunk_of(home);
      making.row = cell.row;
      making.columns[making.count] = cell.column;
      making.into[making.count++] = segment.local + i * kPageSize;
    }
  }
  flush();
  transfer.finish(keeper_gone() && result != Errc::ok ? Errc::fenced : result);
}

Errc Outpost::make(Making& making) noexcept {
  const ChunkEntry& entry = map_[making.chunk.value];
  std::array<std::uint32_t, Code::kMostData> rows{};
  std::array<NodeId, Code::kMostData> nodes{};
  std::array<std::array<Segment, Workrooms::kColumns>, Code::kMostData> segments;
  std::array<Transfer, Code::kMostData> reads;
  std::byte* const room = workrooms_.enter();
  const auto bytes = [&](std::uint32_t source, std::uint32_t page) {
    return room + (source * Workrooms::kColumns + page) * kPageSize;
  };
  std::uint32_t count = 0;
  for (std::uint32_t i = 0; i < code_.nodes() && count < code_.data; ++i) {
    const std::uint64_t place = entry.places[i].load(std::memory_order_acquire);
    if (i == making.row || (place & ChunkEntry::kThere) == 0 || !usable(entry, place)) continue;
    std::size_t used = 0;
    for (std::uint32_t page = 0; page < making.count; ++page) {
      const FrameNo frame = ChunkEntry::decode(place, making.columns[page]).frame;
      Segment* const last = used > 0 ? &segments[count][used - 1] : nullptr;
      if (last != nullptr && last->first + last->count == frame) {
        ++last->count;
      } else {
        segments[count][used++] = Segment{frame, 1, bytes(count, page)};
      }
    }
    rows[count] = i;
    nodes[count] = ChunkEntry::decode(place, 0).node;
    reads[count].segments = std::span(segments[count]).first(used);
    ++count;
  }
  Errc result = count == code_.data ? Errc::ok : Errc::disconnected;
  if (result == Errc::ok) {
    for (std::uint32_t i = 0; i < count; ++i) submit(nodes[i], reads[i]);
    for (std::uint32_t i = 0; i < count; ++i) {
      const Errc read = wait(nodes[i], reads[i]);
      if (result == Errc::ok) result = read;
    }
  }
  if (result == Errc::ok) {
    const Erasure erasure(code_);
    const Factors factors = erasure.solve(making.row, std::span(rows).first(count));
    for (std::uint32_t page = 0; page < making.count; ++page) {
      Pages pages{};
      for (std::uint32_t i = 0; i < count; ++i) pages[i] = bytes(i, page);
      erasure.combine(factors, pages, making.into[page]);
    }
  }
  workrooms_.leave(room);
  return result;
}

}  // namespace comex
