#include "node/buddy.h"

#include <algorithm>
#include <bit>
#include <cassert>

namespace comex {

namespace {

constexpr std::uint32_t block_frames(unsigned order) {
  return std::uint32_t{1} << order;
}

// The least order whose blocks hold `frames` frames. REQUIRES: frames > 0.
constexpr unsigned order_holding(std::uint32_t frames) {
  return static_cast<unsigned>(std::bit_width(frames - 1));
}

}  // namespace

Buddy::Buddy(std::uint32_t slabs, unsigned slab_order) : slab_order_(slab_order), order_begin_{} {
  assert(slabs > 0 && slab_order <= kMaxSlabOrder);
  // The last frame number, 2^32 - 1, is kNone.
  assert((std::uint64_t{slabs} << slab_order) <= UINT32_MAX);
  const std::size_t frames = std::size_t{slabs} << slab_order;
  links_ = std::make_unique_for_overwrite<Link[]>(frames);
  std::size_t words = 0;
  for (unsigned order = 0; order <= slab_order; ++order) {
    order_begin_[order] = words;
    words += ((frames >> order) + 63) / 64;
  }
  free_blocks_.assign(words, 0);
  slab_zone_.assign(slabs, kNobody);
  zones_.emplace_back();
  // Backwards, so that the first slab is handed out first.
  for (std::uint32_t slab = slabs; slab-- > 0;) push_free_slab(slab);
}

ZoneId Buddy::make_zone() {
  if (dropped_zones_.empty()) {
    zones_.emplace_back();
    dropped_zones_.reserve(zones_.capacity());  // so that drop_zone does not allocate
    return ZoneId{static_cast<std::uint32_t>(zones_.size() - 1)};
  }
  const ZoneId zone = dropped_zones_.back();
  dropped_zones_.pop_back();
  zones_[zone.value].live = true;
  return zone;
}

void Buddy::drop_zone(ZoneId zone) {
  assert(zone != kCommonZone && zone_lives(zone) && zones_[zone.value].slabs == 0);
  zones_[zone.value].live = false;
  dropped_zones_.push_back(zone);
}

std::optional<Extent> Buddy::allocate(ZoneId id, unsigned order) {
  assert(zone_lives(id));
  if (order > slab_order_) return std::nullopt;
  Zone& zone = zones_[id.value];

  unsigned block_order;
  std::uint32_t block;
  if (const std::uint32_t sufficient = zone.nonempty >> order; sufficient != 0) {
    block_order = order + static_cast<unsigned>(std::countr_zero(sufficient));
    block = zone.heads[block_order];
    unlink(zone, block_order, block);
  } else {
    if (free_slab_head_ == kNone) return std::nullopt;
    block_order = slab_order_;
    block = free_slab_head_;
    const std::uint32_t slab = block >> slab_order_;
    unlink_free_slab(slab);
    slab_zone_[slab] = id.value;
    ++zone.slabs;
    zone.free_frames += slab_frames();
    free_frames_ += slab_frames();
  }

  while (block_order > order) {
    --block_order;
    push(zone, block_order, block + block_frames(block_order));
  }
  zone.free_frames -= block_frames(order);
  free_frames_ -= block_frames(order);
  return Extent{FrameNo{block}, block_frames(order)};
}

std::vector<Extent> Buddy::allocate_some(ZoneId zone, std::uint32_t frames, unsigned min_order,
                                         std::size_t max_extents) {
  std::vector<Extent> extents;
  std::uint32_t missing = frames;
  unsigned available = slab_order_;  // once an order has failed, it and those above stay unavailable
  while (missing > 0 && extents.size() < max_extents) {
    const unsigned order = std::min(std::max(order_holding(missing), min_order), available);
    if (order < min_order) break;
    if (const std::optional<Extent> extent = allocate(zone, order)) {
      extents.push_back(*extent);
      missing -= std::min(missing, extent->count);
    } else if (order == 0) {
      break;
    } else {
      available = order - 1;
    }
  }
  return extents;
}

std::optional<std::uint32_t> Buddy::free(Extent extent) {
  const std::uint32_t slab = slab_of(extent.first);
  assert(extent.count > 0 && extent.end() <= frames());
  assert(slab_of(FrameNo{static_cast<std::uint32_t>(extent.end() - 1)}) == slab);
  assert(slab_zone_[slab] != kNobody && slab_zone_[slab] != kWithheld);
  Zone& zone = zones_[slab_zone_[slab]];

  // Cut into the fewest aligned blocks: at most 2 * slab_order. Each merge consumes a block that was free before or
  // was inserted here, and of either there are O(slab_order) in reach, so all merging together is O(slab_order) too.
  std::uint32_t first = extent.first.value;
  std::uint32_t left = extent.count;
  unsigned grown = 0;
  while (left > 0) {
    const unsigned aligned = first == 0 ? slab_order_ : static_cast<unsigned>(std::countr_zero(first));
    const unsigned order = std::min(aligned, static_cast<unsigned>(std::bit_width(left)) - 1);
    assert(!is_free(FrameNo{first}) && !is_free(FrameNo{first + block_frames(order) - 1}));
    grown = insert_merged(zone, order, first);
    first += block_frames(order);
    left -= block_frames(order);
  }
  zone.free_frames += extent.count;
  free_frames_ += extent.count;
  if (grown < slab_order_) return std::nullopt;

  --zone.slabs;
  zone.free_frames -= slab_frames();
  free_frames_ -= slab_frames();
  slab_zone_[slab] = kNobody;
  push_free_slab(slab);
  return slab;
}

unsigned Buddy::insert_merged(Zone& zone, unsigned order, std::uint32_t frame) {
  while (order < slab_order_) {
    const std::uint32_t buddy = frame ^ block_frames(order);
    if (!is_free_block(order, buddy)) {
      push(zone, order, frame);
      return order;
    }
    unlink(zone, order, buddy);
    frame &= ~block_frames(order);
    ++order;
  }
  return order;  // a whole slab: the caller takes it out of the zone
}

void Buddy::claim(std::uint32_t slab) {
  assert(slab_zone_[slab] != kNobody && slab_zone_[slab] != kWithheld);
  Zone& zone = zones_[slab_zone_[slab]];
  const std::uint32_t end = (slab + 1) << slab_order_;
  for (std::uint32_t frame = slab << slab_order_; frame < end;) {
    unsigned order = 0;
    while (order < slab_order_ && !(frame % block_frames(order) == 0 && is_free_block(order, frame))) ++order;
    const bool free = order < slab_order_;
    if (free) unlink(zone, order, frame);
    if (free) zone.free_frames -= block_frames(order);
    if (free) free_frames_ -= block_frames(order);
    frame += free ? block_frames(order) : 1;
  }
}

void Buddy::withhold(std::uint32_t slab) {
  assert(slab_zone_[slab] == kNobody);
  unlink_free_slab(slab);
  slab_zone_[slab] = kWithheld;
}

void Buddy::restore(std::uint32_t slab) {
  assert(slab_zone_[slab] == kWithheld);
  slab_zone_[slab] = kNobody;
  push_free_slab(slab);
}

std::optional<std::uint32_t> Buddy::a_free_slab() const {
  if (free_slab_head_ == kNone) return std::nullopt;
  return free_slab_head_ >> slab_order_;
}

std::uint32_t Buddy::largest_free() const {
  if (free_slab_head_ != kNone) return slab_frames();
  return std::bit_floor(zones_[kCommonZone.value].nonempty);  // bit k stands for 2^k frames
}

std::optional<ZoneId> Buddy::zone_of(std::uint32_t slab) const {
  const std::uint32_t zone = slab_zone_[slab];
  if (zone == kNobody || zone == kWithheld) return std::nullopt;
  return ZoneId{zone};
}

bool Buddy::is_free(FrameNo frame) const {
  if (slab_zone_[slab_of(frame)] == kWithheld) return true;
  for (unsigned order = 0; order <= slab_order_; ++order) {
    if (is_free_block(order, frame.value)) return true;
  }
  return false;
}

std::size_t Buddy::metadata_bytes() const {
  return sizeof(*this) + frames() * sizeof(Link) + free_blocks_.capacity() * sizeof(std::uint64_t) +
         slab_zone_.capacity() * sizeof(std::uint32_t) + zones_.capacity() * sizeof(Zone) +
         dropped_zones_.capacity() * sizeof(ZoneId);
}

void Buddy::push_free_slab(std::uint32_t slab) {
  push(free_slab_head_, slab_order_, slab << slab_order_);
  ++free_slabs_;
  free_frames_ += slab_frames();
}

void Buddy::unlink_free_slab(std::uint32_t slab) {
  unlink(free_slab_head_, slab_order_, slab << slab_order_);
  --free_slabs_;
  free_frames_ -= slab_frames();
}

void Buddy::push(Zone& zone, unsigned order, std::uint32_t frame) {
  push(zone.heads[order], order, frame);
  zone.nonempty |= std::uint32_t{1} << order;
}

void Buddy::unlink(Zone& zone, unsigned order, std::uint32_t frame) {
  unlink(zone.heads[order], order, frame);
  if (zone.heads[order] == kNone) zone.nonempty &= ~(std::uint32_t{1} << order);
}

void Buddy::push(std::uint32_t& head, unsigned order, std::uint32_t frame) {
  links_[frame] = Link{kNone, head};
  if (head != kNone) links_[head].previous = frame;
  head = frame;
  head_word(order, frame) |= std::uint64_t{1} << ((frame >> order) % 64);
}

void Buddy::unlink(std::uint32_t& head, unsigned order, std::uint32_t frame) {
  const Link link = links_[frame];
  (link.previous == kNone ? head : links_[link.previous].next) = link.next;
  if (link.next != kNone) links_[link.next].previous = link.previous;
  head_word(order, frame) &= ~(std::uint64_t{1} << ((frame >> order) % 64));
}

std::uint64_t& Buddy::head_word(unsigned order, std::uint32_t frame) {
  return free_blocks_[order_begin_[order] + (frame >> order) / 64];
}

bool Buddy::is_free_block(unsigned order, std::uint32_t frame) const {
  const std::uint64_t word = free_blocks_[order_begin_[order] + (frame >> order) / 64];
  return (word >> ((frame >> order) % 64) & 1) != 0;
}

}  // namespace comex
