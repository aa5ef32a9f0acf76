#include "node/buddy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

namespace comex {
namespace {

constexpr unsigned kOrder = 6;  // slabs of 64 frames, unless a test says otherwise
constexpr std::uint32_t kSlab = 1u << kOrder;

Extent run(std::uint32_t first, std::uint32_t count) {
  return Extent{FrameNo{first}, count};
}

TEST(Buddy, starts_with_all_slabs_free_and_nobodys) {
  const Buddy buddy(3, kOrder);
  EXPECT_EQ(buddy.frames(), 3 * kSlab);
  EXPECT_EQ(buddy.free_frames(), 3 * kSlab);
  EXPECT_EQ(buddy.free_slabs(), 3u);
  EXPECT_EQ(buddy.largest_free(), kSlab);
  EXPECT_EQ(buddy.free_in_zone(kCommonZone), 0u);
  for (std::uint32_t slab = 0; slab < 3; ++slab) EXPECT_FALSE(buddy.zone_of(slab));
}

TEST(Buddy, allocate_splits_a_slab_and_counts) {
  Buddy buddy(2, kOrder);
  const auto extent = buddy.allocate(kCommonZone, 3);
  ASSERT_TRUE(extent);
  EXPECT_EQ(*extent, run(0, 8));
  EXPECT_EQ(buddy.free_frames(), 2 * kSlab - 8);
  EXPECT_EQ(buddy.free_in_zone(kCommonZone), kSlab - 8);
  EXPECT_EQ(buddy.zone_of(0), kCommonZone);
  EXPECT_EQ(buddy.slabs_in_zone(kCommonZone), 1u);
  EXPECT_FALSE(buddy.is_free(FrameNo{7}));
  EXPECT_TRUE(buddy.is_free(FrameNo{8}));
}

TEST(Buddy, allocate_takes_the_smallest_block_that_will_do) {
  Buddy buddy(2, kOrder);
  ASSERT_TRUE(buddy.allocate(kCommonZone, kOrder));
  ASSERT_TRUE(buddy.allocate(kCommonZone, kOrder));
  buddy.free(run(0, 32));
  buddy.free(run(64 + 8, 4));
  EXPECT_EQ(buddy.allocate(kCommonZone, 1), run(72, 2));
  EXPECT_EQ(buddy.allocate(kCommonZone, 1), run(74, 2));
  EXPECT_EQ(buddy.allocate(kCommonZone, 1), run(0, 2));
}

TEST(Buddy, claim_takes_what_is_free_of_a_slab) {
  Buddy buddy(2, kOrder);
  ASSERT_EQ(buddy.allocate(kCommonZone, 3), run(0, 8));
  ASSERT_EQ(buddy.allocate(kCommonZone, 0), run(8, 1));
  buddy.claim(0);
  EXPECT_EQ(buddy.free_frames(), kSlab);
  EXPECT_EQ(buddy.free_in_zone(kCommonZone), 0u);
  EXPECT_EQ(buddy.allocate(kCommonZone, 0), run(kSlab, 1)) << "the other slab";
  EXPECT_FALSE(buddy.free(run(16, 48)));
  EXPECT_EQ(buddy.allocate(kCommonZone, 5), run(32, 32));
  buddy.free(run(32, 32));
  EXPECT_EQ(buddy.free(run(0, 16)), 0u) << "whole again";
}

TEST(Buddy, allocate_says_no_to_what_it_does_not_have) {
  Buddy buddy(1, kOrder);
  EXPECT_FALSE(buddy.allocate(kCommonZone, kOrder + 1));
  EXPECT_FALSE(buddy.allocate(kCommonZone, 40));
  const auto half = buddy.allocate(kCommonZone, kOrder - 1);
  ASSERT_TRUE(half);
  EXPECT_FALSE(buddy.allocate(kCommonZone, kOrder));
  EXPECT_EQ(buddy.largest_free(), kSlab / 2);
  ASSERT_TRUE(buddy.allocate(kCommonZone, kOrder - 1));
  EXPECT_FALSE(buddy.allocate(kCommonZone, 0));
  EXPECT_EQ(buddy.free_frames(), 0u);
  EXPECT_EQ(buddy.largest_free(), 0u);
}

TEST(Buddy, zones_never_share_a_slab) {
  Buddy buddy(2, kOrder);
  const ZoneId family = buddy.make_zone();
  ASSERT_TRUE(buddy.allocate(kCommonZone, 0));
  const auto other = buddy.allocate(family, 0);
  ASSERT_TRUE(other);
  EXPECT_EQ(buddy.slab_of(other->first), 1u);
  EXPECT_EQ(buddy.zone_of(1), family);
  // The common zone has half a slab left in one piece and there is as much in the family's, but the two do not mix.
  ASSERT_TRUE(buddy.allocate(kCommonZone, kOrder - 1));
  EXPECT_FALSE(buddy.allocate(kCommonZone, kOrder - 1));
  EXPECT_TRUE(buddy.allocate(family, kOrder - 1));
}

TEST(Buddy, largest_free_looks_at_the_common_zone_and_free_slabs_only) {
  Buddy buddy(2, kOrder);
  const ZoneId family = buddy.make_zone();
  ASSERT_TRUE(buddy.allocate(family, 0));
  EXPECT_EQ(buddy.largest_free(), kSlab);
  ASSERT_TRUE(buddy.allocate(kCommonZone, kOrder - 1));
  ASSERT_TRUE(buddy.allocate(kCommonZone, kOrder - 2));
  EXPECT_EQ(buddy.largest_free(), kSlab / 4);
}

TEST(Buddy, free_merges_buddies_and_reports_the_slab_that_became_free) {
  Buddy buddy(2, kOrder);
  std::vector<Extent> extents;
  for (unsigned i = 0; i < kSlab; ++i) extents.push_back(*buddy.allocate(kCommonZone, 0));
  for (unsigned i = 1; i < kSlab; i += 2) EXPECT_FALSE(buddy.free(extents[i]));
  EXPECT_EQ(buddy.slabs_in_zone(kCommonZone), 1u);
  for (unsigned i = 0; i + 2 < kSlab; i += 2) EXPECT_FALSE(buddy.free(extents[i]));
  EXPECT_EQ(buddy.free(extents[kSlab - 2]), 0u);
  EXPECT_FALSE(buddy.zone_of(0));
  EXPECT_EQ(buddy.slabs_in_zone(kCommonZone), 0u);
  EXPECT_EQ(buddy.free_in_zone(kCommonZone), 0u);
  EXPECT_EQ(buddy.free_slabs(), 2u);
}

TEST(Buddy, free_takes_runs_of_any_shape) {
  Buddy buddy(1, kOrder);
  ASSERT_TRUE(buddy.allocate(kCommonZone, kOrder));
  EXPECT_FALSE(buddy.free(run(3, 10)));
  EXPECT_EQ(buddy.free_frames(), 10u);
  EXPECT_EQ(buddy.largest_free(), 4u);  // 4..7 or 8..11
  EXPECT_FALSE(buddy.free(run(13, 3)));
  EXPECT_EQ(buddy.largest_free(), 8u);  // 8..15
  EXPECT_FALSE(buddy.free(run(0, 3)));
  EXPECT_EQ(buddy.largest_free(), 16u);
  EXPECT_EQ(buddy.free(run(16, 48)), 0u);
  EXPECT_EQ(buddy.largest_free(), kSlab);
}

TEST(Buddy, free_joins_extents_that_were_allocated_apart) {
  Buddy buddy(1, kOrder);
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(buddy.allocate(kCommonZone, kOrder - 2));
  EXPECT_EQ(buddy.free(run(0, kSlab)), 0u);
  EXPECT_EQ(buddy.free_slabs(), 1u);
}

TEST(Buddy, make_zone_uses_dropped_ids_again) {
  Buddy buddy(1, kOrder);
  const ZoneId a = buddy.make_zone();
  const ZoneId b = buddy.make_zone();
  EXPECT_NE(a, b);
  EXPECT_NE(a, kCommonZone);
  const auto extent = buddy.allocate(a, 2);
  ASSERT_TRUE(extent);
  ASSERT_TRUE(buddy.free(*extent));
  buddy.drop_zone(a);
  EXPECT_EQ(buddy.make_zone(), a);
  EXPECT_TRUE(buddy.allocate(a, 2));
}

TEST(Buddy, withheld_slabs_are_neither_counted_nor_handed_out) {
  Buddy buddy(2, kOrder);
  buddy.withhold(1);
  EXPECT_EQ(buddy.free_frames(), kSlab);
  EXPECT_FALSE(buddy.zone_of(1));
  EXPECT_TRUE(buddy.is_free(FrameNo{kSlab}));
  EXPECT_EQ(buddy.allocate(kCommonZone, kOrder), run(0, kSlab));
  EXPECT_FALSE(buddy.allocate(kCommonZone, 0));
  EXPECT_EQ(buddy.largest_free(), 0u);
  buddy.restore(1);
  EXPECT_EQ(buddy.free_frames(), kSlab);
  EXPECT_EQ(buddy.allocate(kCommonZone, kOrder), run(kSlab, kSlab));
}

TEST(Buddy, allocate_some_gives_one_extent_when_one_will_do) {
  Buddy buddy(4, kOrder);
  EXPECT_EQ(buddy.allocate_some(kCommonZone, 20, 2, 8), std::vector{run(0, 32)});
  EXPECT_EQ(buddy.allocate_some(kCommonZone, 1, 4, 8), std::vector{run(32, 16)});
  EXPECT_TRUE(buddy.allocate_some(kCommonZone, 0, 0, 8).empty());
  EXPECT_TRUE(buddy.allocate_some(kCommonZone, 10, 0, 0).empty());
}

TEST(Buddy, allocate_some_spans_slabs_and_stops_at_max_extents) {
  Buddy buddy(4, kOrder);
  EXPECT_EQ(buddy.allocate_some(kCommonZone, 2 * kSlab + 3, 2, 8),
            (std::vector{run(0, kSlab), run(kSlab, kSlab), run(2 * kSlab, 4)}));
  Buddy fresh(4, kOrder);
  EXPECT_EQ(fresh.allocate_some(kCommonZone, 4 * kSlab, 0, 2).size(), 2u);
}

TEST(Buddy, allocate_some_takes_the_largest_there_is_but_no_scraps) {
  Buddy buddy(1, kOrder);
  ASSERT_TRUE(buddy.allocate(kCommonZone, kOrder));
  buddy.free(run(0, 4));
  buddy.free(run(16, 16));
  buddy.free(run(40, 8));
  EXPECT_EQ(buddy.allocate_some(kCommonZone, 64, 3, 8), (std::vector{run(16, 16), run(40, 8)}));
  EXPECT_EQ(buddy.free_frames(), 4u);
  EXPECT_TRUE(buddy.allocate_some(kCommonZone, 64, 3, 8).empty());
  EXPECT_EQ(buddy.allocate_some(kCommonZone, 64, 0, 8), std::vector{run(0, 4)});
  EXPECT_TRUE(buddy.allocate_some(kCommonZone, 64, kOrder + 1, 8).empty());
}

TEST(Buddy, metadata_is_at_most_nine_bytes_a_frame) {
  // 64 slabs of 2 MiB, the least; and 64 GiB, with as many zones as a node has clients.
  Buddy small(64, 9);
  EXPECT_LE(small.metadata_bytes(), 9 * std::size_t{small.frames()});
  Buddy large(4096, 12);
  for (int i = 0; i < 1024; ++i) large.make_zone();
  EXPECT_LE(large.metadata_bytes(), 9 * std::size_t{large.frames()});
}

// Buddy beside a model that is too simple to be wrong: a byte per frame and a zone per slab.
class Model {
 public:
  Model(std::uint32_t slabs, unsigned order) : order_(order), used_(std::size_t{slabs} << order), zone_(slabs, -1) {}

  bool all(bool used, std::uint32_t first, std::uint32_t count) const {
    return std::all_of(used_.begin() + first, used_.begin() + first + count, [&](char u) { return (u != 0) == used; });
  }
  void mark(Extent extent, bool used) { std::fill_n(used_.begin() + extent.first.value, extent.count, used); }
  bool slab_free(std::uint32_t slab) const { return all(false, slab << order_, 1u << order_); }

  // Is there an aligned free block of this order in the zone's slabs?
  bool has_block(ZoneId zone, unsigned order) const {
    for (std::uint32_t slab = 0; slab < zone_.size(); ++slab) {
      if (zone_[slab] != static_cast<int>(zone.value)) continue;
      const std::uint32_t end = (slab + 1) << order_;
      for (std::uint32_t first = slab << order_; first < end; first += 1u << order) {
        if (all(false, first, 1u << order)) return true;
      }
    }
    return false;
  }
  bool has_free_slab() const { return std::find(zone_.begin(), zone_.end(), -1) != zone_.end(); }
  std::uint32_t largest(ZoneId zone) const {
    if (has_free_slab()) return 1u << order_;
    for (unsigned order = order_; order-- > 0;) {
      if (has_block(zone, order)) return 1u << order;
    }
    return 0;
  }
  std::uint32_t free_in_zone(ZoneId zone) const {
    std::uint32_t free = 0;
    for (std::size_t frame = 0; frame < used_.size(); ++frame) {
      free += zone_[frame >> order_] == static_cast<int>(zone.value) && used_[frame] == 0;
    }
    return free;
  }

  unsigned order_;
  std::vector<char> used_;  // by frame
  std::vector<int> zone_;   // by slab; -1: nobody's
};

struct Shape {
  std::uint32_t slabs;
  unsigned slab_order;
  std::uint32_t operations;
};

class BuddyModel : public testing::TestWithParam<Shape> {
 protected:
  BuddyModel()
      : buddy_(GetParam().slabs, GetParam().slab_order),
        model_(GetParam().slabs, GetParam().slab_order),
        free_frames_(buddy_.frames()) {
    const char* given = std::getenv("COMEX_TEST_SEED");
    seed_ = given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device{}();
    random_.seed(seed_);
  }

  std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>(random_() % n); }

  ZoneId any_zone() { return zones_[below(static_cast<std::uint32_t>(zones_.size()))]; }

  void note_allocated(ZoneId zone, Extent extent) {
    const std::uint32_t slab = extent.first.value >> model_.order_;
    ASSERT_LE(extent.end(), model_.used_.size());
    ASSERT_EQ(extent.first.value % extent.count, 0u) << "not aligned to its size";
    ASSERT_TRUE(model_.all(false, extent.first.value, extent.count)) << "handed out twice";
    if (model_.zone_[slab] == -1) {
      ASSERT_FALSE(model_.has_block(zone, static_cast<unsigned>(std::bit_width(extent.count)) - 1))
          << "took a free slab without need";
      model_.zone_[slab] = static_cast<int>(zone.value);
    }
    ASSERT_EQ(model_.zone_[slab], static_cast<int>(zone.value)) << "from another zone's slab";
    model_.mark(extent, true);
    free_frames_ -= extent.count;
    held_.push_back(extent);
  }

  void allocate() {
    const ZoneId zone = any_zone();
    const unsigned order = below(below(2) == 0 ? model_.order_ + 1 : std::min(model_.order_ + 1, 4u));
    if (const auto extent = buddy_.allocate(zone, order)) {
      ASSERT_EQ(extent->count, 1u << order);
      note_allocated(zone, *extent);
    } else {
      ASSERT_FALSE(model_.has_free_slab()) << "no, with a free slab";
      ASSERT_FALSE(model_.has_block(zone, order)) << "no, with a block of order " << order;
    }
  }

  void allocate_some() {
    const ZoneId zone = any_zone();
    const unsigned min_order = below(model_.order_ + 1);
    const std::uint32_t frames = 1 + below(buddy_.frames() / 4);
    const std::size_t max_extents = 1 + below(8);
    const auto extents = buddy_.allocate_some(zone, frames, min_order, max_extents);
    ASSERT_LE(extents.size(), max_extents);
    std::uint32_t missing = frames;
    std::uint32_t previous = UINT32_MAX;
    for (const Extent extent : extents) {
      ASSERT_GT(missing, 0u) << "more extents than needed";
      ASSERT_GE(extent.count, 1u << min_order);
      ASSERT_LE(extent.count, std::max(std::bit_ceil(missing), 1u << min_order));
      ASSERT_LE(extent.count, previous);
      note_allocated(zone, extent);
      if (HasFatalFailure()) return;
      previous = extent.count;
      missing -= std::min(missing, extent.count);
    }
    if (missing > 0 && extents.size() < max_extents) {
      ASSERT_FALSE(model_.has_free_slab());
      ASSERT_FALSE(model_.has_block(zone, min_order)) << "stopped with a block left";
    }
  }

  void free(Extent extent) {
    const std::uint32_t slab = extent.first.value >> model_.order_;
    const auto freed = buddy_.free(extent);
    model_.mark(extent, false);
    free_frames_ += extent.count;
    ASSERT_EQ(freed.has_value(), model_.slab_free(slab));
    if (!freed) return;
    ASSERT_EQ(*freed, slab);
    model_.zone_[slab] = -1;
    if (below(16) == 0) {
      buddy_.withhold(slab);
      model_.zone_[slab] = -2;
      free_frames_ -= 1u << model_.order_;
    }
  }

  Extent take_held() {
    std::swap(held_[below(static_cast<std::uint32_t>(held_.size()))], held_.back());
    const Extent extent = held_.back();
    held_.pop_back();
    return extent;
  }

  void free_whole() {
    if (!held_.empty()) free(take_held());
  }

  // A run out of the middle of an extent; what is left on either side stays held.
  void free_part() {
    if (held_.empty()) return;
    const Extent whole = take_held();
    const std::uint32_t skip = below(whole.count);
    const std::uint32_t count = below(3) == 0 ? 1 : 1 + below(whole.count - skip);
    if (skip > 0) held_.push_back(run(whole.first.value, skip));
    if (skip + count < whole.count) held_.push_back(run(whole.first.value + skip + count, whole.count - skip - count));
    free(run(whole.first.value + skip, count));
  }

  // All that a zone holds, as when a client dies: in the longest runs there are, across the extents as allocated.
  void free_zone() {
    const ZoneId zone = any_zone();
    const auto in_zone = [&](std::uint32_t frame) {
      return model_.used_[frame] != 0 && model_.zone_[frame >> model_.order_] == static_cast<int>(zone.value);
    };
    std::erase_if(held_, [&](Extent extent) { return in_zone(extent.first.value); });
    for (std::uint32_t first = 0; first < buddy_.frames(); ++first) {
      if (!in_zone(first)) continue;
      const std::uint32_t slab_end = ((first >> model_.order_) + 1) << model_.order_;
      std::uint32_t end = first;
      while (end < slab_end && model_.used_[end] != 0) ++end;
      free(run(first, end - first));
      if (HasFatalFailure()) return;
    }
    ASSERT_EQ(buddy_.slabs_in_zone(zone), 0u);
  }

  void change_zones() {
    if (zones_.size() < 6 && below(2) == 0) {
      zones_.push_back(buddy_.make_zone());
      ASSERT_EQ(std::count(zones_.begin(), zones_.end(), zones_.back()), 1) << "an id twice";
      return;
    }
    const auto victim = zones_.begin() + below(static_cast<std::uint32_t>(zones_.size()));
    if (*victim == kCommonZone || buddy_.slabs_in_zone(*victim) != 0) return;
    buddy_.drop_zone(*victim);
    zones_.erase(victim);
  }

  void restore_withheld() {
    for (std::uint32_t slab = 0; slab < model_.zone_.size(); ++slab) {
      if (model_.zone_[slab] != -2) continue;
      buddy_.restore(slab);
      model_.zone_[slab] = -1;
      free_frames_ += 1u << model_.order_;
    }
  }

  void check_deeply() {
    for (std::uint32_t frame = 0; frame < buddy_.frames(); ++frame) {
      ASSERT_EQ(buddy_.is_free(FrameNo{frame}), model_.used_[frame] == 0) << "frame " << frame;
    }
    for (std::uint32_t slab = 0; slab < buddy_.slabs(); ++slab) {
      const auto zone = buddy_.zone_of(slab);
      ASSERT_EQ(zone ? static_cast<int>(zone->value) : -1, std::max(model_.zone_[slab], -1));
    }
    for (const ZoneId zone : zones_) {
      ASSERT_EQ(buddy_.free_in_zone(zone), model_.free_in_zone(zone));
      ASSERT_EQ(buddy_.slabs_in_zone(zone),
                std::count(model_.zone_.begin(), model_.zone_.end(), static_cast<int>(zone.value)));
    }
    ASSERT_EQ(buddy_.free_slabs(), std::count(model_.zone_.begin(), model_.zone_.end(), -1));
    ASSERT_EQ(buddy_.largest_free(), model_.largest(kCommonZone));
  }

  void step() {
    // The balance swings, so that the arena is by turns nearly empty and nearly full.
    const bool filling = (step_ / 2000) % 2 == 0;
    const std::uint32_t choice = below(1000);
    if (choice < (filling ? 550u : 200u)) {
      allocate();
    } else if (choice < (filling ? 600u : 210u)) {
      allocate_some();
    } else if (choice < (filling ? 800u : 500u)) {
      free_part();
    } else if (choice < 970) {
      free_whole();
    } else if (choice < 972) {
      free_zone();
    } else if (choice < 990) {
      change_zones();
    } else {
      restore_withheld();
    }
  }

  std::uint64_t seed_ = 0;
  std::mt19937_64 random_;
  Buddy buddy_;
  Model model_;
  std::vector<ZoneId> zones_{kCommonZone};
  std::vector<Extent> held_;
  std::uint32_t free_frames_;
  std::uint32_t step_ = 0;
};

TEST_P(BuddyModel, agrees_with_the_model) {
  SCOPED_TRACE("repeat with COMEX_TEST_SEED=" + std::to_string(seed_));
  for (step_ = 0; step_ < GetParam().operations; ++step_) {
    step();
    if (HasFatalFailure()) FAIL() << "at step " << step_;
    ASSERT_EQ(buddy_.free_frames(), free_frames_) << "at step " << step_;
    if (step_ % 997 == 0) check_deeply();
    if (HasFatalFailure()) FAIL() << "at step " << step_;
  }
  while (!held_.empty()) free_whole();
  restore_withheld();
  EXPECT_EQ(buddy_.free_slabs(), buddy_.slabs()) << "all freed, but not all merged";
  check_deeply();
}

INSTANTIATE_TEST_SUITE_P(Shapes, BuddyModel,
                         testing::Values(Shape{13, 6, 1'000'000}, Shape{5, 9, 1'000'000}, Shape{37, 0, 50'000},
                                         Shape{70, 1, 50'000}, Shape{1, 7, 50'000}));

}  // namespace
}  // namespace comex
