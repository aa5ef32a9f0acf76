// Errors are values: what a link is asked wrongly, it refuses, and goes on working.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "support/client_process.h"
#include "support/node.h"
#include "support/pages.h"

namespace comex::test {
namespace {

class LinkError : public testing::TestWithParam<Over> {
 protected:
  Errc move(Direction direction, std::span<const Segment> segments) {
    Transfer transfer(direction, segments);
    return link_->move(transfer);
  }
  // Both ways: a refusal must not depend on the direction.
  void expect_refused(std::span<const Segment> segments, Errc why) {
    EXPECT_EQ(move(Direction::read, segments), why);
    EXPECT_EQ(move(Direction::write, segments), why);
  }
  // After whatever was refused, the link carries on.
  void TearDown() override {
    if (HasFatalFailure()) return;
    EXPECT_EQ(link_->broken(), Errc::ok) << to_string(link_->broken());
    Pages pages(4, 21);
    ASSERT_EQ(write(*link_, held_, pages), Errc::ok);
    pages.clear();
    ASSERT_EQ(read(*link_, held_, pages), Errc::ok);
    EXPECT_TRUE(pages.are(21));
  }

  TestNode node_{GetParam()};
  std::unique_ptr<Link> link_ = node_.connect(GetParam());
  Extent held_ = granted_extent(*link_, 4);
  Pages local_{300, 22};
};

INSTANTIATE_TEST_SUITE_P(Over, LinkError, testing::ValuesIn(media()), testing::PrintToStringParamName());

TEST_P(LinkError, frames_of_nobody_are_denied) {
  const Segment segment{FrameNo{node_.frames() - 1}, 1, local_.data()};
  expect_refused({&segment, 1}, Errc::denied);
  EXPECT_TRUE(local_.are(22)) << "a refused read left its mark";
}

TEST_P(LinkError, frames_of_another_client_are_denied) {
  const auto other = node_.connect(GetParam());
  const Extent theirs = granted_extent(*other, 4);
  Pages pages(4, 23);
  ASSERT_EQ(write(*other, theirs, pages), Errc::ok);
  const Segment segment{theirs.first, 4, local_.data()};
  expect_refused({&segment, 1}, Errc::denied);
  ASSERT_EQ(read(*other, theirs, pages), Errc::ok);
  EXPECT_TRUE(pages.are(23));
}

TEST_P(LinkError, one_foreign_frame_among_good_ones_is_denied) {
  const Segment segments[] = {{held_.first, 1, local_.page(0)},
                              {FrameNo{node_.frames() - 1}, 1, local_.page(1)},
                              {held_.first + 1, 1, local_.page(2)}};
  expect_refused(segments, Errc::denied);
}

TEST_P(LinkError, frames_beyond_the_arena_are_denied) {
  for (const std::uint32_t first : {node_.frames(), node_.frames() + 1, UINT32_MAX - 1, UINT32_MAX}) {
    const Segment segment{FrameNo{first}, 1, local_.data()};
    expect_refused({&segment, 1}, Errc::denied);
  }
  const Segment across{FrameNo{node_.frames() - 1}, 2, local_.data()};
  expect_refused({&across, 1}, Errc::denied);
}

// The frame number plus the count passes 2^32: the request cannot even be said. The link refuses, it does not break.
TEST_P(LinkError, frames_that_wrap_are_refused) {
  const Segment segment{FrameNo{UINT32_MAX}, 2, local_.data()};
  Transfer transfer(Direction::read, {&segment, 1});
  const Errc result = link_->move(transfer);
  EXPECT_TRUE(result == Errc::denied || result == Errc::invalid) << to_string(result);
}

TEST_P(LinkError, no_segments_is_invalid) {
  expect_refused({}, Errc::invalid);
}

TEST_P(LinkError, empty_segments_are_invalid) {
  const Segment segments[] = {{held_.first, 1, local_.page(0)}, {held_.first, 0, local_.page(1)}};
  expect_refused(segments, Errc::invalid);
}

TEST_P(LinkError, segments_without_memory_are_invalid) {
  const Segment segment{held_.first, 1, nullptr};
  expect_refused({&segment, 1}, Errc::invalid);
}

TEST_P(LinkError, too_many_segments_are_invalid) {
  const std::vector<Segment> segments(wire::kMaxSegments + 1, Segment{held_.first, 1, local_.data()});
  expect_refused(segments, Errc::invalid);
}

TEST_P(LinkError, too_many_pages_are_invalid) {
  const Segment segment{held_.first, wire::kMaxTransferPages + 1, local_.data()};
  expect_refused({&segment, 1}, Errc::invalid);
  const Segment all{held_.first, UINT32_MAX, local_.data()};
  expect_refused({&all, 1}, Errc::invalid);
}

TEST_P(LinkError, grants_that_make_no_sense_are_invalid) {
  EXPECT_EQ(link_->grant(0, 0).error().code, Errc::invalid);
  EXPECT_EQ(link_->grant(1, 32).error().code, Errc::invalid);
  EXPECT_EQ(link_->grant(1, 31).error().code, Errc::no_memory);
}

TEST_P(LinkError, returning_what_is_not_held_is_denied) {
  for (const Extent extent :
       {Extent{FrameNo{node_.frames() - 1}, 1}, Extent{FrameNo{node_.frames()}, 1}, Extent{FrameNo{0}, UINT32_MAX}}) {
    const auto done = link_->give_back({&extent, 1});
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, Errc::denied);
  }
}

// All or none: the frames of a refused return are still held, and can still be used.
TEST_P(LinkError, a_refused_return_leaves_the_frames_usable) {
  const std::vector<Extent> some{held_, Extent{FrameNo{node_.frames() - 1}, 1}};
  const auto done = link_->give_back(some);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Errc::denied);
  Pages pages(4);
  EXPECT_EQ(read(*link_, held_, pages), Errc::ok);
}

TEST_P(LinkError, a_return_that_names_a_frame_twice_is_denied) {
  const std::vector<Extent> twice{held_, held_};
  const auto done = link_->give_back(twice);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Errc::denied);
}

// The program has no descriptor left for the memory of a grant: the grant fails, and what was held before is as good as
// ever.
TEST(ShmLink, a_grant_that_cannot_be_mapped_leaves_the_rest_usable) {
  TestNode node;
  auto client = start_client(node, Over::shm);
  const auto held = parse_extents(client.ask("grant 64 6"));
  ASSERT_EQ(held.size(), 1U);
  ASSERT_EQ(client.ask("write " + words(held[0]) + " 25"), "ok");
  ASSERT_EQ(client.ask("no_more_files"), "ok");
  // More than a slab: a part of it comes from the slab that is mapped already.
  const auto refused = client.ask("grant 600 0");
  ASSERT_TRUE(parse_extents(refused).empty()) << refused;
  EXPECT_EQ(client.ask("read " + words(held[0]) + " 25"), "ok same");
  EXPECT_EQ(client.ask("beat"), "ok");
  // In a moment: the slab was exported, so its memory is replaced first.
  EXPECT_TRUE(wait_until([&] { return node.free_frames() == node.frames() - 64; })) << "what could not be mapped";
}

// One thread asks for what it does not hold, over and over, on the only lane; the other's transfers are not its
// business.
TEST_P(LinkError, refusals_to_one_thread_do_not_break_the_link_for_another) {
  auto options = node_.options(GetParam());
  options.lanes = 1;
  const auto link = node_.connect(GetParam(), options);
  const Extent mine = granted_extent(*link, 1);
  std::atomic<bool> stop{false};
  std::jthread wrong_one([&] {
    Pages page(16);
    const Segment segment{FrameNo{node_.frames() - 16}, 16, page.data()};
    while (!stop) {
      Transfer transfer(Direction::read, {&segment, 1});
      if (link->move(transfer) != Errc::denied) return;
    }
  });
  Pages page(1, 24);
  Errc result = Errc::ok;
  const Deadline enough(Millis(300));
  while (result == Errc::ok && !enough.passed()) result = write(*link, mine, page);
  stop = true;
  EXPECT_EQ(result, Errc::ok) << to_string(result);
  EXPECT_EQ(link->broken(), Errc::ok) << to_string(link->broken());
}

}  // namespace
}  // namespace comex::test
