#include "run/keeper/frame_book.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

namespace comex {
namespace {

constexpr NodeId kNode{3};
constexpr std::uint32_t kBookFrames = 1024;
constexpr unsigned kOrder = 7;

class FrameBookTest : public ::testing::Test {
 protected:
  FrameBookTest() { book_.open(kNode, kBookFrames, kOrder); }
  static comex::Run run(std::uint32_t first, std::uint32_t count) { return {kNode, FrameNo{first}, count}; }

  FrameBook book_;
  std::multiset<std::uint32_t> freed_;
  FrameBook::Free free_ = [this](const comex::Run& freed) {
    for (std::uint32_t i = 0; i < freed.count; ++i) freed_.insert(freed.first.value + i);
  };
};

TEST_F(FrameBookTest, grant_refusesWhatSomebodyHolds) {
  FrameBook::Holder one;
  FrameBook::Holder two;
  EXPECT_TRUE(book_.grant(one, run(10, 20)));
  EXPECT_FALSE(book_.grant(two, run(29, 5)));
  EXPECT_FALSE(book_.grant(one, run(0, 11)));
  EXPECT_TRUE(book_.grant(two, run(30, 5)));
  EXPECT_EQ(one.frames(), 20U);
  EXPECT_EQ(two.frames_of(kNode), 5U);
}

TEST_F(FrameBookTest, grant_refusesWhatIsNot) {
  FrameBook::Holder one;
  EXPECT_FALSE(book_.grant(one, run(kBookFrames - 1, 2)));
  EXPECT_FALSE(book_.grant(one, run(0, 0)));
  EXPECT_FALSE(book_.grant(one, comex::Run{NodeId{4}, FrameNo{0}, 1}));
}

TEST_F(FrameBookTest, giveBack_isAllOrNothing) {
  FrameBook::Holder one;
  ASSERT_TRUE(book_.grant(one, run(0, 10)));
  EXPECT_FALSE(book_.give_back(one, run(5, 6), free_));
  EXPECT_FALSE(book_.give_back(one, run(0, 0), free_));
  EXPECT_FALSE(book_.give_back(one, run(UINT32_MAX, 2), free_));
  EXPECT_TRUE(freed_.empty());
  EXPECT_TRUE(book_.give_back(one, run(0, 10), free_));
  EXPECT_EQ(freed_.size(), 10U);
  EXPECT_FALSE(book_.give_back(one, run(0, 10), free_));
}

TEST_F(FrameBookTest, inherit_framesAreFreeWhenTheLastHolderIsGone) {
  FrameBook::Holder parent;
  FrameBook::Holder heir;
  ASSERT_TRUE(book_.grant(parent, run(100, 50)));
  book_.inherit(parent, heir);
  EXPECT_TRUE(book_.give_back(parent, run(100, 50), free_));
  EXPECT_TRUE(freed_.empty());
  EXPECT_TRUE(book_.give_back(heir, run(120, 10), free_));
  EXPECT_EQ(freed_.size(), 10U);
  book_.release(heir, free_);
  EXPECT_EQ(freed_.size(), 50U);
}

TEST_F(FrameBookTest, close_nothingOfALostNodeIsFreed) {
  FrameBook::Holder one;
  ASSERT_TRUE(book_.grant(one, run(0, 10)));
  book_.close(kNode);
  FrameBook::forget(one, kNode);
  book_.release(one, free_);
  EXPECT_TRUE(freed_.empty());
  EXPECT_EQ(one.frames(), 0U);
}

TEST_F(FrameBookTest, random_agreesWithAModel) {
  std::mt19937 random(1);
  std::map<int, FrameBook::Holder> holders;
  std::map<int, std::set<std::uint32_t>> model;
  int next = 0;
  for (int step = 0; step < 20'000; ++step) {
    const auto first = static_cast<std::uint32_t>(random() % kBookFrames);
    const auto count = static_cast<std::uint32_t>(random() % 40 + 1);
    const auto some = holders.empty() ? holders.end() : std::next(holders.begin(), random() % holders.size());
    const auto held_by = [&](std::uint32_t frame) {
      int n = 0;
      for (const auto& [id, frames] : model) n += frames.contains(frame) ? 1 : 0;
      return n;
    };
    freed_.clear();
    std::multiset<std::uint32_t> expected;
    const auto drop = [&](int id, std::uint32_t frame) {
      model[id].erase(frame);
      if (held_by(frame) == 0) expected.insert(frame);
    };
    if (some == holders.end() || random() % 50 == 0) {
      holders[next];
      model[next++];
    } else if (const auto what = random() % 100; what < 45) {
      bool fits = first + count <= kBookFrames;
      for (std::uint32_t f = first; f < first + count && fits; ++f) fits = held_by(f) == 0;
      ASSERT_EQ(book_.grant(some->second, run(first, count)), fits);
      for (std::uint32_t f = first; f < first + count && fits; ++f) model[some->first].insert(f);
    } else if (what < 95) {
      bool fits = true;
      for (std::uint32_t f = first; f < first + count; ++f) fits = fits && model[some->first].contains(f);
      ASSERT_EQ(book_.give_back(some->second, run(first, count), free_), fits);
      for (std::uint32_t f = first; f < first + count && fits; ++f) drop(some->first, f);
    } else if (what < 98) {
      book_.inherit(some->second, holders[next]);
      model[next] = model[some->first];
      ++next;
    } else {
      book_.release(some->second, free_);
      for (const std::uint32_t f : std::set<std::uint32_t>(model[some->first])) drop(some->first, f);
      model.erase(some->first);
      holders.erase(some);
    }
    ASSERT_EQ(freed_, expected) << "step " << step;
  }
}

}  // namespace
}  // namespace comex
