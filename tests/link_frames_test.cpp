// The life of frames as a client sees it: granted, returned, shared with an heir, found again after a cut connection.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "support/node.h"
#include "support/pages.h"
#include "support/wait.h"

namespace comex::test {
namespace {

class LinkFrames : public testing::TestWithParam<Over> {
 protected:
  std::unique_ptr<Link> connect() { return node_.connect(GetParam()); }

  TestNode node_{GetParam()};
};

INSTANTIATE_TEST_SUITE_P(Over, LinkFrames, testing::ValuesIn(media()), testing::PrintToStringParamName());

constexpr std::uint32_t kSlab = 512;  // frames in a slab of an arena of this size

TEST_P(LinkFrames, grants_count_in_the_status) {
  const auto link = connect();
  const auto before = node_.free_frames();
  const auto reply = link->grant(1000);
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_GE(total_frames(reply->extents), 1000U);
  for (const auto& extent : reply->extents) EXPECT_GE(extent.count, 1U << kUsualMinOrder);
  EXPECT_EQ(reply->load.free_frames, before - total_frames(reply->extents));
  EXPECT_EQ(node_.free_frames(), reply->load.free_frames);
  const auto status = link->status();
  ASSERT_TRUE(status);
  ASSERT_EQ(status->clients.size(), 1U);
  EXPECT_EQ(status->clients[0].frames, total_frames(reply->extents));
}

TEST_P(LinkFrames, given_back_frames_can_no_longer_be_used) {
  const auto link = connect();
  const Extent frames = granted_extent(*link, kSlab);
  Pages pages(4, 31);
  ASSERT_EQ(write(*link, Extent{frames.first, 4}, pages), Errc::ok);
  ASSERT_TRUE(link->give_back({&frames, 1}));
  EXPECT_EQ(read(*link, Extent{frames.first, 4}, pages), Errc::denied);
  EXPECT_EQ(write(*link, Extent{frames.first, 4}, pages), Errc::denied);
  const auto again = link->give_back({&frames, 1});
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, Errc::denied);
  EXPECT_TRUE(node_.all_free_soon());
}

TEST_P(LinkFrames, part_of_an_extent_can_be_returned) {
  const auto link = connect();
  const Extent frames = granted_extent(*link, kSlab);
  const Extent middle{frames.first + 100, 50};
  ASSERT_TRUE(link->give_back({&middle, 1}));
  EXPECT_EQ(node_.free_frames(), node_.frames() - kSlab + 50);
  Pages pages(100, 32);
  EXPECT_EQ(write(*link, Extent{frames.first, 100}, pages), Errc::ok);
  // Within a slab that it still reaches by itself, a client is not checked (docs/design-notes.md).
  if (one_sided(GetParam())) return;
  EXPECT_EQ(write(*link, Extent{frames.first + 100, 1}, pages), Errc::denied);
}

// Every frame of the node, filled by one client and then granted to another: nothing of the first is left.
TEST_P(LinkFrames, new_frames_are_zeros_whoever_had_them_before) {
  for (const Over before : {Over::shm, GetParam()}) {
    {
      const auto first = node_.connect(before);
      Pages pages(kSlab, 33);
      for (const auto& extent : granted(*first, node_.frames(), 9)) ASSERT_EQ(write(*first, extent, pages), Errc::ok);
      first->bye();
    }
    ASSERT_TRUE(node_.all_free_soon());
    const auto second = connect();
    Pages pages(kSlab);
    std::uint64_t seen = 0;
    for (const auto& extent : granted(*second, node_.frames(), 9)) {
      pages.fill(34);
      ASSERT_EQ(read(*second, extent, pages), Errc::ok);
      EXPECT_TRUE(pages.are_zeros()) << "frames from " << extent.first.value;
      seen += extent.count;
    }
    EXPECT_EQ(seen, node_.frames());
    second->bye();
    ASSERT_TRUE(node_.all_free_soon());
  }
}

// Two clients trade small extents in the same slabs for a while: neither ever sees the other's bytes in a new frame.
TEST_P(LinkFrames, new_frames_are_zeros_while_frames_change_hands) {
  const auto a = connect();
  const auto b = connect();
  Pages pages(16);
  for (std::uint64_t round = 0; round < 200; ++round) {
    Link& link = round % 2 == 0 ? *a : *b;
    const std::uint64_t seed = round % 2;
    const Extent frames = granted_extent(link, 16);
    pages.fill(99);
    ASSERT_EQ(read(link, frames, pages), Errc::ok);
    EXPECT_TRUE(pages.are_zeros() || (one_sided(GetParam()) && pages.are(seed))) << "round " << round;
    pages.fill(seed);
    ASSERT_EQ(write(link, frames, pages), Errc::ok);
    ASSERT_TRUE(link.give_back({&frames, 1}));
  }
}

TEST_P(LinkFrames, a_full_node_says_no_and_grants_again_after_a_return) {
  const auto link = connect();
  std::vector<Extent> held;
  for (;;) {
    const auto reply = link->grant(kSlab, 9);
    if (!reply) {
      EXPECT_EQ(reply.error().code, Errc::no_memory);
      EXPECT_NE(reply.error().message.find("512 frames"), std::string::npos) << reply.error().message;
      break;
    }
    held.insert(held.end(), reply->extents.begin(), reply->extents.end());
  }
  EXPECT_EQ(total_frames(held), node_.frames());
  EXPECT_EQ(connect()->grant(1, 0).error().code, Errc::no_memory);
  ASSERT_TRUE(link->give_back({&held[3], 1}));
  const auto other = connect();
  const auto again = other->grant(kSlab, 9);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->extents, std::vector<Extent>{held[3]});
  Pages pages(1, 35);
  EXPECT_EQ(write(*other, Extent{held[3].first, 1}, pages), Errc::ok);
}

// A plain no, not a scrap: when only small pieces are left, a client that asks for large ones gets none.
TEST_P(LinkFrames, no_extent_is_smaller_than_asked) {
  const auto link = connect();
  auto held = granted(*link, node_.frames(), 9);
  const Extent scrap{held.back().first, 64};
  ASSERT_TRUE(link->give_back({&scrap, 1}));
  EXPECT_EQ(link->grant(128).error().code, Errc::no_memory);
  const auto small = link->grant(128, 0);
  ASSERT_TRUE(small) << small.error().message;
  EXPECT_EQ(total_frames(small->extents), 64U);
}

TEST_P(LinkFrames, bye_frees_everything_at_once) {
  const auto link = connect();
  granted(*link, 2000);
  link->bye();
  EXPECT_EQ(node_.clients(), 0U);
  EXPECT_TRUE(node_.all_free_soon());
  EXPECT_NE(link->broken(), Errc::ok);
  EXPECT_FALSE(link->beat());
}

// Whole slabs come and go on one link from several threads: what one returns, another is granted and must be able to
// use at once.
TEST_P(LinkFrames, threads_that_grant_and_return_at_once) {
  const auto link = connect();
  std::atomic<unsigned> wrong{0};
  {
    std::vector<std::jthread> threads;
    for (std::uint64_t t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        Pages pages(4);
        for (std::uint64_t i = 0; i < 25 && wrong == 0; ++i) {
          const auto reply = link->grant(kSlab, 9);
          if (!reply && reply.error().code == Errc::no_memory) continue;  // the others have them all
          if (!reply || reply->extents.size() != 1) {
            ++wrong;
            return;
          }
          const Extent some{reply->extents[0].first, 4};
          pages.fill(t * 1000 + i);
          bool fine = write(*link, some, pages) == Errc::ok;
          pages.clear();
          fine = fine && read(*link, some, pages) == Errc::ok && pages.are(t * 1000 + i);
          fine = link->give_back(reply->extents).has_value() && fine;
          if (!fine) ++wrong;
        }
      });
    }
  }
  EXPECT_EQ(wrong, 0U);
  EXPECT_EQ(link->broken(), Errc::ok);
  EXPECT_TRUE(node_.all_free_soon());
}

// More extents than one message holds.
TEST_P(LinkFrames, a_return_of_very_many_extents) {
  const auto link = connect();
  std::vector<Extent> single;
  for (const auto& extent : granted(*link, node_.frames(), 9)) {
    for (std::uint32_t i = 0; i < extent.count; i += 2) single.push_back(Extent{extent.first + i, 1});
    for (std::uint32_t i = 1; i < extent.count; i += 2) single.push_back(Extent{extent.first + i, 1});
  }
  single.erase(single.begin() + 7);  // one is kept, so that the last message is not a full one
  ASSERT_GT(single.size() + 1, wire::kMaxExtents - 1);
  ASSERT_TRUE(link->give_back(single));
  EXPECT_TRUE(wait_until([&] { return node_.free_frames() >= node_.frames() - kSlab; }));
  EXPECT_EQ(node_.server().status().clients.at(0).frames, 1U);
}

// --- share: fork ---

TEST_P(LinkFrames, an_heir_keeps_frames_its_parent_returns) {
  const auto parent = connect();
  const Extent frames = granted_extent(*parent, kSlab);
  Pages pages(kSlab, 36);
  ASSERT_EQ(write(*parent, frames, pages), Errc::ok);
  const auto session = parent->share();
  ASSERT_TRUE(session) << session.error().message;
  EXPECT_EQ(node_.free_frames(), node_.frames() - kSlab) << "sharing takes no frames";
  const auto heir = node_.resume(GetParam(), *session);
  ASSERT_TRUE(heir->reach({&frames, 1}));

  ASSERT_TRUE(parent->give_back({&frames, 1}));
  EXPECT_EQ(node_.free_frames(), node_.frames() - kSlab) << "the heir still holds them";
  pages.clear();
  ASSERT_EQ(read(*heir, frames, pages), Errc::ok);
  EXPECT_TRUE(pages.are(36));
  // Nobody else can have got them meanwhile.
  EXPECT_EQ(read(*parent, frames, pages), Errc::denied);

  ASSERT_TRUE(heir->give_back({&frames, 1}));
  EXPECT_TRUE(node_.all_free_soon());
}

TEST_P(LinkFrames, a_parent_keeps_frames_its_heir_returns) {
  const auto parent = connect();
  const Extent frames = granted_extent(*parent, kSlab);
  Pages pages(kSlab, 37);
  ASSERT_EQ(write(*parent, frames, pages), Errc::ok);
  const auto session = parent->share();
  ASSERT_TRUE(session);
  node_.resume(GetParam(), *session)->bye();
  ASSERT_EQ(read(*parent, frames, pages), Errc::ok);
  EXPECT_TRUE(pages.are(37));
  EXPECT_EQ(node_.free_frames(), node_.frames() - kSlab);
}

TEST_P(LinkFrames, an_heir_survives_its_parent) {
  auto parent = connect();
  const Extent frames = granted_extent(*parent, 64);
  Pages pages(64, 38);
  ASSERT_EQ(write(*parent, frames, pages), Errc::ok);
  const auto session = parent->share();
  ASSERT_TRUE(session);
  parent->bye();
  parent.reset();
  const auto heir = node_.resume(GetParam(), *session);
  ASSERT_TRUE(heir->reach({&frames, 1}));
  ASSERT_EQ(read(*heir, frames, pages), Errc::ok);
  EXPECT_TRUE(pages.are(38));
}

// Three generations, as a shell that forks a shell that forks a program.
TEST_P(LinkFrames, heirs_have_heirs) {
  auto link = connect();
  const Extent frames = granted_extent(*link, 64);
  Pages pages(64, 39);
  ASSERT_EQ(write(*link, frames, pages), Errc::ok);
  for (int generation = 0; generation < 3; ++generation) {
    const auto session = link->share();
    ASSERT_TRUE(session) << session.error().message;
    auto heir = node_.resume(GetParam(), *session);
    ASSERT_TRUE(heir->reach({&frames, 1}));
    link->bye();
    link = std::move(heir);
    ASSERT_EQ(read(*link, frames, pages), Errc::ok);
    EXPECT_TRUE(pages.are(39));
  }
  link->bye();
  EXPECT_TRUE(node_.all_free_soon());
}

// --- a cut connection ---

TEST_P(LinkFrames, resume_after_a_cut_connection_finds_the_frames) {
  auto link = connect();
  const Extent frames = granted_extent(*link, 64);
  Pages pages(64, 40);
  ASSERT_EQ(write(*link, frames, pages), Errc::ok);
  const Session session = link->session();
  link->sever(Errc::disconnected);
  link.reset();
  const auto again = node_.resume(GetParam(), session);
  ASSERT_TRUE(again->reach({&frames, 1}));
  pages.clear();
  ASSERT_EQ(read(*again, frames, pages), Errc::ok);
  EXPECT_TRUE(pages.are(40));
  EXPECT_EQ(node_.clients(), 1U);
  again->bye();
  EXPECT_TRUE(node_.all_free_soon());
}

// Who comes back last has the session; the connections it had before end with an error, not with silence.
TEST_P(LinkFrames, a_second_resume_takes_over) {
  const auto first = connect();
  const Extent frames = granted_extent(*first, 64);
  Pages pages(64, 41);
  ASSERT_EQ(write(*first, frames, pages), Errc::ok);
  auto second = node_.resume(GetParam(), first->session());
  auto third = node_.resume(GetParam(), first->session());
  ASSERT_TRUE(third->reach({&frames, 1}));
  EXPECT_FALSE(first->beat());
  EXPECT_FALSE(second->beat());
  second.reset();
  pages.clear();
  ASSERT_EQ(read(*third, frames, pages), Errc::ok);
  EXPECT_TRUE(pages.are(41));
  EXPECT_TRUE(third->beat()) << "the end of an older connection is not the end of the client";
  EXPECT_EQ(node_.clients(), 1U);
}

TEST_P(LinkFrames, resume_after_bye_is_fenced) {
  auto link = connect();
  granted(*link, 64);
  auto options = node_.options(GetParam());
  options.resume = link->session();
  link->bye();
  const auto again = comex::connect(node_.url(GetParam()), options);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, Errc::fenced);
}

// A severed link answers at once, with the reason it was severed for.
TEST_P(LinkFrames, a_severed_link_refuses_everything) {
  const auto link = connect();
  const Extent frames = granted_extent(*link, 4);
  link->sever(Errc::timeout);
  link->sever(Errc::disconnected);  // the first reason stays
  Pages pages(4);
  EXPECT_EQ(read(*link, frames, pages), Errc::timeout);
  EXPECT_EQ(link->broken(), Errc::timeout);
  const auto granted_after = link->grant(1, 0);
  ASSERT_FALSE(granted_after);
  EXPECT_EQ(granted_after.error().code, Errc::timeout);
}

}  // namespace
}  // namespace comex::test
