// Buddy: which frames of an arena are free. A binary buddy system, after Linux's page_alloc, with zones.
//
//   arena  | slab 0          | slab 1          | slab 2          | slab 3          |
//   zone   | common          | nobody (free)   | family 5        | common          |
//          | ##--####----##-- | --------------- | ########------- | ---#----------- |
//
// A slab is 2^slab_order frames. It either belongs to one zone or is wholly free and belongs to nobody. Zones keep
// clients apart that must not share a slab: those who map slabs into their own memory, where a slab is the least that
// can be given or taken away (see node/arena.h). Everybody else lives in the common zone.
//
// Free blocks are threaded on lists, one per zone and order, through 32-bit links kept beside the frames, never in
// them: the frames may be mapped by clients. A bit per possible block says whether it is one of the free ones, which
// is all that merging has to know. Together 8.25 bytes a frame.
//
// allocate and free take O(slab_order) steps and allocate nothing.
//
// Thread safety: none; the ledger has the lock.
//
// Invariants:
//  1. A free block of order k starts at a multiple of 2^k and lies in one slab; free blocks do not overlap.
//  2. Two free buddies of one order below slab_order never coexist: free space is always fully merged. So if an
//     aligned run of 2^k frames of a slab is free, some free block contains it.
//  3. A free block of order slab_order is a slab that belongs to nobody. A slab that belongs to a zone has a frame
//     in use.
//  4. A withheld slab is wholly free, belongs to nobody, is not counted as free and is never handed out.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "wire/types.h"

namespace comex {

struct ZoneId {
  std::uint32_t value = 0;
  friend constexpr auto operator<=>(ZoneId, ZoneId) = default;
};

inline constexpr ZoneId kCommonZone{0};

class Buddy {
 public:
  static constexpr unsigned kMaxSlabOrder = 20;

  // All slabs are free. REQUIRES: slabs > 0, slab_order <= kMaxSlabOrder, fewer than 2^32 frames in all.
  Buddy(std::uint32_t slabs, unsigned slab_order);

  // --- zones ---
  // The only operation that may allocate. Ids of dropped zones are used again.
  ZoneId make_zone();
  // REQUIRES: not the common zone, and slabs_in_zone(zone) == 0.
  void drop_zone(ZoneId zone);

  // --- frames ---
  // 2^order frames aligned to their size: from the smallest free block of the zone that will do, else from a free
  // slab, which joins the zone. Nothing is the plain "no".
  std::optional<Extent> allocate(ZoneId id, unsigned order);

  // About `frames` frames in at most max_extents extents, largest first, each a power of two of at least
  // 2^min_order frames and no larger than what is still missing, rounded up. Prefers a large extent in a free slab to
  // small ones in the zone. May be less than asked; empty is the plain "no".
  std::vector<Extent> allocate_some(ZoneId zone, std::uint32_t frames, unsigned min_order, std::size_t max_extents);

  // Takes frames back: any run within one slab, however it was allocated. If that leaves the slab wholly free, the
  // slab leaves its zone and its number is returned. The slab is then free to all: if a client had it mapped,
  // withhold it before anything else is allocated.
  // REQUIRES: extent.count > 0, and every frame is in use.
  std::optional<std::uint32_t> free(Extent extent);

  // Takes every free frame of a slab that belongs to a zone: nothing of it can be allocated until they are freed.
  void claim(std::uint32_t slab);

  // Keeps a wholly free slab from being handed out, until restore: it is being replaced, or cannot be.
  // REQUIRES: the slab is wholly free and not withheld.
  void withhold(std::uint32_t slab);
  // REQUIRES: the slab is withheld.
  void restore(std::uint32_t slab);

  // --- what there is ---
  [[nodiscard]] std::uint32_t frames() const { return slabs() << slab_order_; }
  [[nodiscard]] std::uint32_t slabs() const { return static_cast<std::uint32_t>(slab_zone_.size()); }
  [[nodiscard]] unsigned slab_order() const { return slab_order_; }
  [[nodiscard]] std::uint32_t slab_of(FrameNo frame) const { return frame.value >> slab_order_; }

  // All free frames, of every zone and of free slabs; not those withheld.
  [[nodiscard]] std::uint32_t free_frames() const { return free_frames_; }
  [[nodiscard]] std::uint32_t free_slabs() const { return free_slabs_; }
  // The one that would be handed out next.
  [[nodiscard]] std::optional<std::uint32_t> a_free_slab() const;
  // Frames in the largest extent that allocate(kCommonZone, ...) could give now.
  [[nodiscard]] std::uint32_t largest_free() const;
  // Free frames in the zone's own slabs. Beyond these a zone can draw on the free slabs.
  [[nodiscard]] std::uint32_t free_in_zone(ZoneId zone) const { return zones_[zone.value].free_frames; }
  [[nodiscard]] std::uint32_t slabs_in_zone(ZoneId zone) const { return zones_[zone.value].slabs; }
  // Nothing if the slab is wholly free.
  [[nodiscard]] std::optional<ZoneId> zone_of(std::uint32_t slab) const;
  // True also of frames in a withheld slab. O(slab_order).
  [[nodiscard]] bool is_free(FrameNo frame) const;

  // What this object takes, all included.
  [[nodiscard]] std::size_t metadata_bytes() const;

 private:
  static constexpr std::uint32_t kNone = UINT32_MAX;  // no frame: the end of a list
  static constexpr std::uint32_t kNobody = UINT32_MAX;
  static constexpr std::uint32_t kWithheld = UINT32_MAX - 1;

  // Meaningful only for the first frame of a free block; left uninitialised, so untouched memory stays untouched.
  struct Link {
    std::uint32_t previous;
    std::uint32_t next;
  };

  struct Zone {
    std::array<std::uint32_t, kMaxSlabOrder> heads;  // by order; whole slabs are never here
    std::uint32_t nonempty = 0;                      // bit k: heads[k] has a block
    std::uint32_t free_frames = 0;
    std::uint32_t slabs = 0;
    bool live = true;
    Zone() { heads.fill(kNone); }
  };

  void push(std::uint32_t& head, unsigned order, std::uint32_t frame);
  void unlink(std::uint32_t& head, unsigned order, std::uint32_t frame);
  void push(Zone& zone, unsigned order, std::uint32_t frame);
  void unlink(Zone& zone, unsigned order, std::uint32_t frame);
  // Adds a block to the zone's lists, merged with its free buddies. The order it grew to.
  unsigned insert_merged(Zone& zone, unsigned order, std::uint32_t frame);
  void push_free_slab(std::uint32_t slab);
  void unlink_free_slab(std::uint32_t slab);

  [[nodiscard]] std::uint64_t& head_word(unsigned order, std::uint32_t frame);
  [[nodiscard]] bool is_free_block(unsigned order, std::uint32_t frame) const;
  [[nodiscard]] std::uint32_t slab_frames() const { return std::uint32_t{1} << slab_order_; }
  [[nodiscard]] bool zone_lives(ZoneId zone) const { return zone.value < zones_.size() && zones_[zone.value].live; }

  unsigned slab_order_;
  std::unique_ptr<Link[]> links_;                           // by frame
  std::vector<std::uint64_t> free_blocks_;                  // a bit per aligned block of each order
  std::array<std::size_t, kMaxSlabOrder + 1> order_begin_;  // where an order's bits begin in free_blocks_, in words
  std::vector<std::uint32_t> slab_zone_;                    // by slab: a zone, kNobody or kWithheld
  std::vector<Zone> zones_;                                 // by ZoneId
  std::vector<ZoneId> dropped_zones_;
  std::uint32_t free_slab_head_ = kNone;
  std::uint32_t free_slabs_ = 0;
  std::uint32_t free_frames_ = 0;
};

}  // namespace comex
