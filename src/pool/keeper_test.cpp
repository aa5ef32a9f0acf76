#include "pool/keeper.h"

#include <gtest/gtest.h>

#include "pool/kept_member_test.h"

namespace comex {
namespace {

using testing_support::eventually;
using testing_support::FakeNode;
using testing_support::KeptMember;
using testing_support::page_of;
using testing_support::quick_config;

TEST(Keeper, refill_fillsTheListAboveTheThreshold) {
  FakeNode node;
  KeptMember kept(node);
  kept.start();
  EXPECT_TRUE(eventually([&] { return kept->at_hand() >= 1024 && node.held() == kept->at_hand(); }));
  const auto status = kept->status();
  EXPECT_EQ(status.threshold, 1024U);
  EXPECT_GT(status.round_trip, Nanos(0));
  EXPECT_EQ(status.load.clients, 1U);
  EXPECT_EQ(status.info.frames, 8192U);
}

TEST(Keeper, refill_comesBeforeTheListIsDry) {
  FakeNode node;
  KeptMember kept(node);
  kept.start();
  ASSERT_TRUE(eventually([&] { return kept->at_hand() >= 2048; }));
  const int before = node.calls(wire::Type::grant);
  std::uint32_t taken = 0;
  while (taken < 1000) taken += kept->take(50)->count;
  EXPECT_EQ(node.calls(wire::Type::grant), before) << "above the threshold nobody is asked";
  while (taken < 1100) taken += kept->take(50)->count;
  EXPECT_TRUE(eventually([&] { return kept->at_hand() >= 2048; })) << "below it the keeper is woken";
  EXPECT_EQ(kept->status().in_use, taken);
}

TEST(Keeper, roles_sayHowMuchIsKept) {
  FakeNode node;
  KeptMember kept(node);
  kept.start(Role::standby);
  EXPECT_TRUE(eventually([&] { return kept->at_hand() >= 128; }));
  EXPECT_LE(kept->at_hand(), 256U);
  kept->set_role(Role::active);
  EXPECT_TRUE(eventually([&] { return kept->at_hand() >= 1024; }));
  kept->set_role(Role::standby);
  EXPECT_TRUE(eventually([&] { return node.held() == 256; }));
  kept->set_role(Role::idle);
  EXPECT_TRUE(eventually([&] { return node.held() == 0; }));
  EXPECT_EQ(kept->at_hand(), 0U);
}

TEST(Keeper, refused_isNotAskedAgainUntilThereIsRoom) {
  FakeNode node(8192, Millis(60));
  node.refuse(true);
  KeptMember kept(node);
  kept.start();
  ASSERT_TRUE(eventually([&] { return kept->refusing(); }));
  const int beats = node.calls(wire::Type::beat);
  const int asked = node.calls(wire::Type::grant);
  ASSERT_TRUE(eventually([&] { return node.calls(wire::Type::beat) > beats + 3; }));
  EXPECT_EQ(node.calls(wire::Type::grant), asked);
  EXPECT_EQ(kept->state(), MemberState::up);
  node.refuse(false);
  EXPECT_TRUE(eventually([&] { return kept->at_hand() >= 1024; })) << "a beat tells that there is room again";
}

TEST(Keeper, scraps_areTakenWhenNothingElseIsLeft) {
  FakeNode node;
  node.refuse(true);
  node.extents_of(3);
  KeptMember kept(node);
  kept.start();
  ASSERT_TRUE(eventually([&] { return kept->refusing(); }));
  EXPECT_EQ(node.last_min_order(), kUsualMinOrder);
  kept->set_role(Role::scraps);
  EXPECT_TRUE(eventually([&] { return kept->at_hand() >= 1024; }));
  EXPECT_EQ(node.last_min_order(), 0U);
  EXPECT_TRUE(eventually([&] { return node.held() == kept->at_hand(); })) << "what the list cannot hold goes back";
}

TEST(Keeper, asksForHoles_whileTheNodeEmptiesSlabs) {
  FakeNode node(8192, Millis(60));
  KeptMember kept(node);
  kept.start();
  ASSERT_TRUE(eventually([&] { return kept->at_hand() >= 1024; }));
  node.ask_to_leave({15});
  ASSERT_TRUE(eventually([&] { return node.calls(wire::Type::asked) > 0; }));
  while (kept->at_hand() >= 1024) ASSERT_TRUE(kept->take(64));
  EXPECT_TRUE(eventually([&] { return kept->at_hand() >= 1024; }));
  EXPECT_EQ(1U << node.last_min_order(), kBatchPages);
  node.ask_to_leave({});
  ASSERT_TRUE(kept.take(64));
  EXPECT_TRUE(eventually([&] { return kept.take(64) && node.last_min_order() == kUsualMinOrder; }));
}

TEST(Keeper, returns_travelInBatches) {
  FakeNode node;
  KeptMember kept(node);
  kept.start();
  std::vector<comex::Run> runs;
  for (int i = 0; i < 2000; ++i) runs.push_back(kept.take(1).value());
  for (const auto& run : runs) kept->give_back(run);
  EXPECT_TRUE(eventually([&] { return node.held() == kept->at_hand() && kept->status().in_use == 0; }));
  EXPECT_LE(node.calls(wire::Type::give_back), 10);
}

TEST(Keeper, brokenLink_resumesWithItsFrames) {
  FakeNode node(8192, Millis(60'000));
  KeptMember kept(node);
  kept.start();
  const auto run = kept.take(64).value();
  ASSERT_EQ(kept.write(run.at(5), page_of(0x5a)), Errc::ok);
  const auto at_hand_before = kept->at_hand();
  node.drop_links();
  std::vector<std::byte> page;
  EXPECT_EQ(kept.read(run.at(5), page), Errc::disconnected);
  EXPECT_EQ(kept->wait_until_decided(run.node, Deadline(std::chrono::seconds(60))), Errc::ok);
  EXPECT_EQ(kept.read(run.at(5), page), Errc::ok);
  EXPECT_EQ(page, page_of(0x5a));
  EXPECT_EQ(kept->id(), run.node);
  EXPECT_EQ(node.begun(), 1) << "the same session";
  EXPECT_GE(kept->at_hand(), at_hand_before) << "what was at hand still is";
  EXPECT_TRUE(kept.losses().empty());
}

TEST(Keeper, brokenLink_reachesItsSlabsAgain) {
  FakeNode node(8192, Millis(60'000));
  KeptMember kept(node);
  kept.start();
  ASSERT_TRUE(eventually([&] { return kept->at_hand() >= 2048; }));
  node.drop_links();
  std::vector<std::byte> page;
  EXPECT_EQ(kept.read(Location{kept->id(), FrameNo{0}}, page), Errc::disconnected);
  ASSERT_EQ(kept->wait_until_decided(kept->id(), Deadline(std::chrono::seconds(60))), Errc::ok);
  std::uint32_t reached = 0;
  for (const Extent& extent : node.reached()) reached += extent.count;
  EXPECT_EQ(reached, node.held());
}

TEST(Keeper, returnLostOnTheWay_isSentAgain) {
  FakeNode node(8192, Millis(60'000));
  KeptMember kept(node);
  kept.start();
  const auto run = kept.take(64).value();
  ASSERT_TRUE(eventually([&] { return kept->at_hand() >= 1024; }));
  node.lose_next_reply(wire::Type::give_back);  // it arrives, but we do not hear so
  kept->give_back(run);
  EXPECT_TRUE(eventually([&] { return node.calls(wire::Type::give_back) == 2 && kept->state() == MemberState::up; }));
  EXPECT_TRUE(eventually([&] { return node.held() == kept->at_hand(); }));
  EXPECT_TRUE(kept.losses().empty());
}

// The slab is no longer ours when the session resumes, and must not be asked for.
TEST(Keeper, returnOfAWholeSlabLostOnTheWay_doesNotHinderResuming) {
  FakeNode node(8192, Millis(60'000));
  KeptMember kept(node);
  kept.start();
  ASSERT_TRUE(eventually([&] { return kept->at_hand() == 2048; }));
  std::vector<comex::Run> slab;
  for (int i = 0; i < 8; ++i) slab.push_back(kept.take(64).value());
  node.lose_next_reply(wire::Type::give_back);
  for (const auto& run : slab) kept->give_back(run);
  EXPECT_TRUE(eventually([&] { return node.calls(wire::Type::give_back) >= 2 && kept->state() == MemberState::up; }));
  EXPECT_TRUE(eventually([&] { return node.held() == kept->at_hand(); }));
  EXPECT_EQ(node.begun(), 1);
}

TEST(Keeper, fenced_reportsTheLossOnceAndBeginsAnew) {
  FakeNode node(8192, Millis(60));
  KeptMember kept(node);
  kept.start();
  const auto run = kept.take(64).value();
  node.forget_clients();
  ASSERT_TRUE(eventually([&] { return kept.losses().size() == 1; }));
  const auto loss = kept.losses()[0];
  EXPECT_EQ(loss.node, run.node);
  EXPECT_EQ(loss.frames, 64U);
  EXPECT_FALSE(loss.reason.empty());
  ASSERT_TRUE(kept.becomes(MemberState::up));
  EXPECT_NE(kept->id(), run.node);
  const auto fresh = kept.take(1).value();
  EXPECT_EQ(fresh.node, kept->id());
  // The old id stays dead, whatever the new session holds.
  std::vector<std::byte> page;
  EXPECT_EQ(kept.read(Location{run.node, fresh.first}, page), Errc::fenced);
  EXPECT_EQ(kept->wait_until_decided(run.node, Deadline(Millis(0))), Errc::fenced);
  kept->give_back(run);
  EXPECT_EQ(kept->status().in_use, 1U);
  EXPECT_EQ(kept->status().losses, 1U);
  EXPECT_EQ(kept.losses().size(), 1U);
}

TEST(Keeper, restartedNode_isALossToo) {
  FakeNode node(8192, Millis(60'000));
  KeptMember kept(node);
  kept.start();
  const auto run = kept.take(10).value();
  node.restart();
  std::vector<std::byte> page;
  EXPECT_EQ(kept.read(run.at(0), page), Errc::disconnected);
  EXPECT_EQ(kept->wait_until_decided(run.node, Deadline(std::chrono::seconds(60))), Errc::fenced);
  ASSERT_TRUE(eventually([&] { return kept.losses().size() == 1; }));
  EXPECT_TRUE(kept.becomes(MemberState::up));
}

TEST(Keeper, fenced_withNothingInUseIsNoLoss) {
  FakeNode node(8192, Millis(60));
  KeptMember kept(node);
  kept.start();
  ASSERT_TRUE(eventually([&] { return kept->at_hand() >= 1024; }));
  kept->give_back(kept.take(64).value());
  const NodeId before = kept->id();
  node.forget_clients();
  ASSERT_TRUE(eventually([&] { return node.begun() == 2 && kept->state() == MemberState::up; }));
  EXPECT_TRUE(kept.losses().empty());
  EXPECT_EQ(kept->id(), before);
  EXPECT_TRUE(eventually([&] { return kept->at_hand() >= 1024 && node.held() == kept->at_hand(); }));
}

TEST(Keeper, silentPastTheLease_isALoss) {
  FakeNode node(8192, Millis(150));
  KeptMember kept(node);
  kept.start();
  ASSERT_TRUE(kept.take(64));
  node.die();
  ASSERT_TRUE(eventually([&] { return kept.losses().size() == 1; }));
  EXPECT_EQ(kept->state(), MemberState::lost);
  node.revive();
  EXPECT_TRUE(kept.becomes(MemberState::up));
  EXPECT_EQ(kept.losses().size(), 1U);
}

TEST(Keeper, idsUsedUp_nodeIsLeftAlone) {
  FakeNode node(8192, Millis(60));
  KeptMember kept(node);
  kept.allow_ids(0);
  kept.start();
  ASSERT_TRUE(kept.take(1));
  node.forget_clients();
  ASSERT_TRUE(eventually([&] { return kept.losses().size() == 1; }));
  kept.stop();
  EXPECT_EQ(kept->state(), MemberState::lost);
  EXPECT_EQ(node.begun(), 1);
}

TEST(Keeper, deadNode_isTriedWithGrowingPauses) {
  FakeNode node;
  node.die();
  auto config = quick_config();
  config.backoff_first = Millis(10);
  config.backoff_longest = Millis(10'000);
  KeptMember kept(node, config);
  const auto start = Clock::now();
  kept.start();
  ASSERT_TRUE(eventually([&] { return node.connects() >= 5; }));
  // At least half of 10, 20, 40 and 80 ms lies between the five.
  EXPECT_GE(Clock::now() - start, Millis(75));
  EXPECT_EQ(kept->state(), MemberState::aside);
  node.revive();
  EXPECT_TRUE(kept.becomes(MemberState::up));
}

TEST(Keeper, slowNode_isSetAsideButStillRead) {
  FakeNode node(8192, Millis(300));
  auto config = quick_config();
  config.slow_beat = Millis(50);
  KeptMember kept(node, config);
  kept.start();
  const auto run = kept.take(1).value();
  ASSERT_EQ(kept.write(run.at(0), page_of(7)), Errc::ok);
  node.slow_calls(Millis(80));
  ASSERT_TRUE(kept.becomes(MemberState::aside));
  EXPECT_FALSE(kept->take(1)) << "no new pages";
  std::vector<std::byte> page;
  EXPECT_EQ(kept.read(run.at(0), page), Errc::ok);
  EXPECT_EQ(page, page_of(7));
  node.slow_calls(Millis(0));
  EXPECT_TRUE(kept.becomes(MemberState::up));
  EXPECT_EQ(node.begun(), 1);
  EXPECT_EQ(node.connects(), 1) << "the link stood all the time";
}

TEST(Keeper, callThatTimesOut_setsAsideAndResumes) {
  FakeNode node(8192, Millis(300));
  LinkOptions options;
  options.control_timeout = Millis(20);
  KeptMember kept(node, quick_config(), options);
  kept.start();
  ASSERT_TRUE(kept.take(1));
  node.slow_calls(Millis(1000));
  ASSERT_TRUE(eventually([&] { return node.connects() > 1; }));
  node.slow_calls(Millis(0));
  EXPECT_TRUE(eventually([&] { return kept->state() == MemberState::up && kept->usable(); }));
}

TEST(Keeper, stop_saysBye) {
  FakeNode node;
  KeptMember kept(node);
  kept.start();
  ASSERT_TRUE(kept.take(1));
  kept.stop();
  EXPECT_EQ(node.calls(wire::Type::bye), 1);
  EXPECT_EQ(node.held(), 0U);
  EXPECT_EQ(node.links(), 0U);
}

TEST(Keeper, stop_doesNotWaitForADeadCall) {
  FakeNode node(8192, Millis(30));
  LinkOptions options;
  options.control_timeout = Millis(600'000);
  KeptMember kept(node, quick_config(), options);
  kept.start();
  ASSERT_TRUE(kept.take(1));
  node.slow_calls(Millis(600'000));
  const int beats = node.calls(wire::Type::beat);
  ASSERT_TRUE(eventually([&] { return node.calls(wire::Type::beat) > beats; }));
  kept.keeper().request_stop();
  kept.keeper().finish(Deadline(Millis(10)));  // returns; the test's time-out is the assertion
  EXPECT_EQ(node.links(), 0U);
}

}  // namespace
}  // namespace comex
