#include "run/runtime/intervals.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <set>
#include <string>

namespace comex::runtime {
namespace {

class IntervalsTest : public ::testing::Test {
 protected:
  std::string text() {
    std::string all;
    set_->for_each_in(0, UINT64_MAX,
                      [&](auto begin, auto end) { all += std::to_string(begin) + "-" + std::to_string(end) + " "; });
    return all;
  }
  std::unique_ptr<Intervals> set_ = std::make_unique<Intervals>();
};

TEST_F(IntervalsTest, add_joinsWhatTouches) {
  set_->add(10, 20);
  set_->add(30, 40);
  EXPECT_EQ(text(), "10-20 30-40 ");
  set_->add(20, 30);
  EXPECT_EQ(text(), "10-40 ");
  set_->add(5, 7);
  set_->add(0, 100);
  EXPECT_EQ(text(), "0-100 ");
  set_->add(50, 50);
  EXPECT_EQ(text(), "0-100 ");
}

TEST_F(IntervalsTest, remove_cuts) {
  set_->add(10, 40);
  set_->remove(20, 30);
  EXPECT_EQ(text(), "10-20 30-40 ");
  set_->remove(0, 12);
  set_->remove(38, 99);
  EXPECT_EQ(text(), "12-20 30-38 ");
  set_->remove(12, 38);
  EXPECT_EQ(text(), "");
}

TEST_F(IntervalsTest, first_in) {
  set_->add(10, 20);
  set_->add(30, 40);
  EXPECT_EQ(set_->first_in(0, 5).end, 0U);
  EXPECT_EQ(set_->first_in(15, 35).begin, 15U);
  EXPECT_EQ(set_->first_in(15, 35).end, 20U);
  EXPECT_EQ(set_->first_in(20, 99).begin, 30U);
}

TEST_F(IntervalsTest, model) {
  std::mt19937 random(7);
  std::set<std::uint64_t> model;
  for (int i = 0; i < 20'000; ++i) {
    const std::uint64_t begin = random() % 200;
    const std::uint64_t end = begin + random() % 30;
    const bool adds = random() % 2 == 0;
    adds ? set_->add(begin, end) : set_->remove(begin, end);
    for (std::uint64_t at = begin; at < end; ++at) {
      if (adds) model.insert(at);
      if (!adds) model.erase(at);
    }
    std::size_t pieces = 0;
    std::uint64_t last = UINT64_MAX;
    std::set<std::uint64_t> found;
    set_->for_each_in(0, 1000, [&](auto from, auto to) {
      ++pieces;
      ASSERT_NE(from, last) << "they do not touch";
      last = to;
      for (std::uint64_t at = from; at < to; ++at) found.insert(at);
    });
    ASSERT_EQ(found, model);
    ASSERT_EQ(pieces, set_->size());
  }
}

}  // namespace
}  // namespace comex::runtime
