#include "pager/prefetch/recorded.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <random>
#include <set>
#include <vector>

namespace comex {
namespace {

constexpr std::uint64_t kPages = 10'000;
constexpr Anchors kThen{{PageNo{0x5'5555}, PageNo{0x5'6666}, PageNo{0x7'ffff'0000}}};
constexpr Anchors kNow{{PageNo{0x5'9999}, PageNo{0x5'c666}, PageNo{0x7'ff12'3456}}};

using Order = std::vector<std::uint64_t>;  // of pages below the anchor of mappings

PageNo page_at(const Anchors& anchors, std::uint64_t page) {
  return anchors.at[Anchors::mappings] + (0 - 1 - page);
}

// As the keeper makes it of a profile.
class Arrays {
 public:
  explicit Arrays(const std::vector<Order>& threads) {
    std::set<PageKey> all;
    for (const Order& order : threads) {
      for (const std::uint64_t page : order) all.insert(kThen.key_of(page_at(kThen, page)));
    }
    pages_.assign(all.begin(), all.end());
    for (const Order& order : threads) {
      if (!order_.empty()) order_.push_back(Sequence::kBreak);
      for (const std::uint64_t page : order) {
        const auto found = std::lower_bound(pages_.begin(), pages_.end(), kThen.key_of(page_at(kThen, page)));
        order_.push_back(static_cast<std::uint32_t>(found - pages_.begin()));
      }
    }
    for (std::uint32_t page = 0; page < pages_.size(); ++page) {
      first_.push_back(static_cast<std::uint32_t>(places_.size()));
      for (std::uint32_t place = 0; place < order_.size(); ++place) {
        if (order_[place] == page) places_.push_back(place);
      }
    }
    first_.push_back(static_cast<std::uint32_t>(places_.size()));
  }
  [[nodiscard]] Sequence sequence() const { return Sequence({pages_, order_, first_, places_}); }

 private:
  std::vector<PageKey> pages_;
  std::vector<std::uint32_t> order_;
  std::vector<std::uint32_t> first_;
  std::vector<Sequence::Place> places_;
};

// A program whose pages are all away, but for those that were asked for; and away again once they were used.
class Played {
 public:
  explicit Played(const Arrays& arrays) { prefetcher_.play(arrays.sequence(), kNow); }

  void touch(std::uint64_t number) {
    const PageNo page = page_at(kNow, number);
    const bool here = buffer_.erase(page) > 0;
    const Miss miss{page, here ? Miss::From::buffer : Miss::From::node, true, false, one_in};
    waits += !here;
    const Plan plan = prefetcher_.plan(history_, miss);
    known += plan.known;
    unknown += plan.unknown;
    std::uint32_t count = 0;
    for (std::uint32_t i = 0; i < plan.listed; ++i) {
      const auto listed = prefetcher_.listed(plan.listed_at + i);
      ASSERT_TRUE(listed);
      count += buffer_.insert(*listed).second;
    }
    asked += count;
    if (plan.listed > 0) prefetcher_.brought(history_, miss, plan, {.pages = count, .mapped = false, .listed = true});
  }
  void touch_all(const Order& order) {
    for (const std::uint64_t page : order) touch(page);
  }

  std::uint32_t one_in = 8;
  std::uint64_t waits = 0;
  std::uint64_t known = 0;
  std::uint64_t unknown = 0;
  std::uint64_t asked = 0;

 private:
  Recorded prefetcher_;
  History history_;
  std::set<PageNo> buffer_;
};

Order shuffled(std::uint64_t first, std::uint64_t count, unsigned seed) {
  Order order(count);
  for (std::uint64_t i = 0; i < count; ++i) order[i] = first + i;
  std::shuffle(order.begin(), order.end(), std::mt19937(seed));
  return order;
}

TEST(Anchors, key_isTheSameInAnotherRun) {
  for (std::uint64_t far = 1; far < 1 << 20; far *= 2) {
    for (const Anchors::Piece piece : {Anchors::heap, Anchors::mappings}) {
      EXPECT_EQ(kThen.key_of(kThen.at[piece] + far), kNow.key_of(kNow.at[piece] + far));
    }
    EXPECT_EQ(kThen.key_of(kThen.at[Anchors::mappings] + (0 - far)),
              kNow.key_of(kNow.at[Anchors::mappings] + (0 - far)));
    const PageNo page = kThen.at[Anchors::heap] + (0 - far);
    EXPECT_EQ(kThen.page_of(kThen.key_of(page)), page);
  }
  // From anywhere.
  for (const std::uint64_t key : {UINT64_MAX, std::uint64_t{7} << 56, std::uint64_t{1} << 55}) {
    (void)kThen.page_of(PageKey{key});
  }
}

TEST(Recorded, sameOrder_hardlyWaits) {
  const Order order = shuffled(0, kPages, 1);
  const Arrays arrays({order});
  Played played(arrays);
  played.touch_all(order);
  EXPECT_LE(played.waits, 8U);
  EXPECT_GE(played.known, kPages - 8);
  EXPECT_LE(played.asked, kPages);
}

// Pages that are on their way are not taken for useless.
TEST(Recorded, sameOrder_onACheapLinkToo) {
  const Order order = shuffled(0, kPages, 1);
  const Arrays arrays({order});
  Played played(arrays);
  played.one_in = 1;
  played.touch_all(order);
  EXPECT_LE(played.waits, 8U);
}

TEST(Recorded, loops_findTheirPlaceAgain) {
  const Order order = shuffled(0, 1000, 1);
  const Arrays arrays({order});
  Played played(arrays);
  for (int i = 0; i < 3; ++i) played.touch_all(order);
  EXPECT_LE(played.waits, 3 * 20U);
  // What it does not know, and then what it does.
  played.waits = 0;
  played.touch_all(shuffled(5000, 200, 3));
  EXPECT_EQ(played.waits, 200U);
  played.waits = 0;
  played.touch_all(order);
  EXPECT_LE(played.waits, 20U);
}

// Of the faults, every other is in another run: what was local in one was away in the other.
TEST(Recorded, halfTheSame_isFollowed) {
  Order visits;
  for (unsigned i = 0; i < 10; ++i) {
    const Order some = shuffled(0, kPages / 5, i);
    visits.insert(visits.end(), some.begin(), some.end());
  }
  std::mt19937 random(5);
  const auto half = [&] {
    Order order;
    std::copy_if(visits.begin(), visits.end(), std::back_inserter(order), [&](auto) { return random() % 2 == 0; });
    return order;
  };
  const Arrays arrays({half()});
  const Order now = half();
  Played played(arrays);
  played.touch_all(now);
  EXPECT_GT(played.known, now.size() * 40 / 100);
  EXPECT_LT(played.waits, now.size() * 60 / 100);
}

// What is local in one run and away in the other, and faults that overtake each other.
TEST(Recorded, notQuiteTheSame_isFollowed) {
  const Order order = shuffled(0, kPages, 1);
  const Arrays arrays({order});
  std::mt19937 random(5);
  Order other;
  for (const std::uint64_t page : order) {
    if (random() % 10 == 0) continue;
    other.push_back(page);
    if (random() % 10 == 0) other.push_back(kPages + random() % 1000);        // unknown
    if (random() % 50 == 0) other.push_back(order[random() % order.size()]);  // out of line
    if (random() % 10 == 0 && other.size() > 9) std::swap(other[other.size() - 1], other[other.size() - 5]);
  }
  Played played(arrays);
  played.touch_all(other);
  EXPECT_LT(played.waits, other.size() / 5);
  EXPECT_GT(played.known, other.size() * 8 / 10);
}

TEST(Recorded, anotherOrderOfTheSamePages_isGivenUp) {
  const Arrays arrays({shuffled(0, kPages, 1)});
  Played played(arrays);
  for (unsigned seed = 2; seed < 6; ++seed) played.touch_all(shuffled(0, kPages, seed));
  EXPECT_LT(played.known, 4 * kPages / 20);
  EXPECT_LT(played.asked, 4 * kPages / 20) << "little is read in vain";
}

TEST(Recorded, threads_areFollowedEachByItself) {
  const Order one = shuffled(0, 1000, 1);
  const Order other = shuffled(1000, 1000, 2);
  const Arrays arrays({one, other});
  Played first(arrays);
  Played second(arrays);
  for (std::size_t i = 0; i < one.size(); ++i) {
    first.touch(one[i]);
    second.touch(other[i]);
  }
  EXPECT_LE(first.waits, 8U);
  EXPECT_LE(second.waits, 8U);
  EXPECT_LE(first.asked, 1000U) << "nothing beyond the end of its own";
}

TEST(Recorded, withoutASequence_asAutomatic) {
  Recorded recorded;
  const Automatic automatic;
  History one;
  History other;
  std::mt19937 random(3);
  for (std::uint64_t i = 0; i < 2000; ++i) {
    const PageNo page{1000 + (i < 1000 ? i * 40 : random() % 5000)};
    const Miss miss{page, Miss::From::node, true, false, 8};
    const Plan a = recorded.plan(one, miss);
    const Plan b = automatic.plan(other, miss);
    ASSERT_TRUE(a.after == b.after && a.before == b.before && a.step == b.step && a.mapped == b.mapped);
    EXPECT_EQ(a.listed, 0U);
    EXPECT_FALSE(a.known || a.unknown);
  }
}

// Bytes that make no sense: nothing is read beyond them.
TEST(Sequence, anything_isSafe) {
  std::mt19937 random(9);
  for (int i = 0; i < 300; ++i) {
    const auto some = [&](std::size_t count) {
      std::vector<std::uint32_t> numbers(count);
      for (auto& number : numbers) number = static_cast<std::uint32_t>(random() % 4 == 0 ? random() : random() % 40);
      return numbers;
    };
    std::vector<PageKey> pages(random() % 30);
    for (PageKey& page : pages) page = kNow.key_of(page_at(kNow, random() % 50));
    const auto order = some(random() % 50);
    const auto first = some(random() % 2 == 0 ? pages.size() + 1 : random() % 30);
    const auto places = some(random() % 50);
    Recorded recorded;
    recorded.play(Sequence({pages, order, first, places}), kNow);
    History history;
    for (int fault = 0; fault < 200; ++fault) {
      const Miss miss{page_at(kNow, random() % 60), Miss::From::buffer, true, false, 8};
      const Plan plan = recorded.plan(history, miss);
      for (std::uint32_t at = 0; at < plan.listed; ++at) (void)recorded.listed(plan.listed_at + at);
      if (plan.listed > 0) recorded.brought(history, miss, plan, {.pages = 3, .listed = true});
    }
  }
}

}  // namespace
}  // namespace comex
