#include <gtest/gtest.h>

#include "sim/churn_study.h"
#include "sim/cluster_study.h"
#include "sim/events.h"
#include "sim/refill_study.h"
#include "sim/sim_report.h"

namespace comex::sim {
namespace {

ClusterStudy small_cluster() {
  ClusterStudy study;
  study.nodes = 20;
  study.domains = 5;
  study.clients = 100;
  study.node_slabs = 16;
  study.days = 0.2;
  study.node_days = 0.2;
  return study;
}

RefillStudy small_refill() {
  RefillStudy study;
  study.nodes = 4;
  study.clients = 40;
  study.seconds = 0.5;
  return study;
}

TEST(Events, next_byTimeAndThenInOrder) {
  Events<int> events;
  events.plan(2, 20);
  events.plan(1, 10);
  events.plan(1, 11);
  EXPECT_EQ(events.next(), 10);
  EXPECT_EQ(events.next(), 11);
  EXPECT_EQ(events.now(), 1);
  EXPECT_EQ(events.next(), 20);
  EXPECT_TRUE(events.empty());
}

TEST(ClusterStudy, sameSeed_sameRun) {
  const ClusterResult a = simulate_cluster(small_cluster());
  const ClusterResult b = simulate_cluster(small_cluster());
  EXPECT_EQ(a.asked, b.asked);
  EXPECT_EQ(a.copies_lost, b.copies_lost);
  EXPECT_EQ(a.repair_seconds, b.repair_seconds);
  ClusterStudy other = small_cluster();
  other.seed = 2;
  EXPECT_NE(simulate_cluster(other).asked, a.asked);
}

TEST(ClusterStudy, oneCopy_whatANodeHadIsLost) {
  ClusterStudy study = small_cluster();
  study.copies = 1;
  const ClusterResult result = simulate_cluster(study);
  EXPECT_GT(result.failures, 0U);
  EXPECT_GT(result.chunks_lost, 0U);
  EXPECT_EQ(result.chunks_lost, result.copies_lost);
  EXPECT_GT(result.programs_lost, 0U);
  EXPECT_EQ(result.copies_made, 0U);
}

TEST(ClusterStudy, twoCopies_areMadeAgain) {
  ClusterStudy study = small_cluster();
  study.use = 0.5;
  study.repair_mib_per_second = 1e6;
  const ClusterResult result = simulate_cluster(study);
  EXPECT_GT(result.copies_lost, 0U);
  EXPECT_EQ(result.chunks_lost, 0U);
  EXPECT_EQ(result.programs_lost, 0U);
  EXPECT_GT(result.copies_made, 0U);
  // But for those that programs gave up before.
  EXPECT_LE(result.copies_made, result.copies_lost);
  EXPECT_LE(result.repair_seconds.size(), result.failures);
  EXPECT_GE(result.repair_seconds.back(), study.notice_seconds);
}

TEST(ClusterStudy, slowRepair_takesLongerAndLosesMore) {
  ClusterStudy quick = small_cluster();
  ClusterStudy slow = small_cluster();
  slow.repair_mib_per_second = quick.repair_mib_per_second / 50;
  slow.node_days = quick.node_days = 0.05;
  const ClusterResult a = simulate_cluster(quick);
  const ClusterResult b = simulate_cluster(slow);
  EXPECT_GT(b.repair_seconds.back(), a.repair_seconds.back());
  EXPECT_GT(b.chunks_lost, a.chunks_lost);
}

TEST(ClusterStudy, tooMuchWanted_isRefusedAndNothingElse) {
  ClusterStudy study = small_cluster();
  study.use = 1.3;
  study.node_days = 0;
  const ClusterResult result = simulate_cluster(study);
  EXPECT_GT(result.refused, 0U);
  EXPECT_LT(result.refused, result.asked);
  EXPECT_GT(result.use_when_refused, 0.9);
  EXPECT_EQ(result.failures, 0U);
  EXPECT_EQ(result.chunks_lost, 0U);
}

TEST(RefillStudy, fewFramesAtHand_programsStandStill) {
  RefillStudy study = small_refill();
  study.network_us = 2000;
  const RefillResult few = simulate_refill(study, 64);
  const RefillResult many = simulate_refill(study, 8192);
  EXPECT_GT(few.stood_still, 0.1);
  EXPECT_LT(many.stood_still, few.stood_still / 10);
  EXPECT_GT(many.mean_at_hand, few.mean_at_hand);
}

// It finds a T that does as well as one that is as large as may be, with fewer frames at hand.
TEST(RefillStudy, equationOne_isEnough) {
  RefillStudy study = small_refill();
  study.network_us = 2000;
  const RefillResult measured = simulate_refill(study, 0);
  const RefillResult most = simulate_refill(study, 16384);
  EXPECT_LT(measured.stood_still, most.stood_still + 0.01);
  EXPECT_LT(measured.mean_at_hand, most.mean_at_hand);
  EXPECT_GT(measured.expected_us, 0);
}

TEST(SimReport, hasEverything) {
  SimFigures figures;
  figures.refill_study = small_refill();
  for (const std::uint32_t threshold : {1024U, 0U}) {
    figures.refill.push_back(simulate_refill(figures.refill_study, threshold));
  }
  figures.cluster_study = small_cluster();
  figures.cluster = simulate_cluster(figures.cluster_study);
  figures.losses.push_back({2, 0.2, figures.cluster});
  const std::string text = to_text(figures);
  for (const char* const part : {"refill:", "eq. (1)", "cluster:", "balance", "losses"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part;
  }
  EXPECT_NE(to_json(figures).find("repair_seconds_p95"), std::string::npos);
  EXPECT_EQ(draw(figures).size(), 3U);
}

TEST(ChurnStudy, compaction_keepsLongExtents) {
  for (const bool shm : {false, true}) {
    ChurnStudy study;
    study.shm = shm;
    study.hours = 0.4;
    const ChurnResult with = simulate_churn(study);
    study.compaction = false;
    const ChurnResult without = simulate_churn(study);
    EXPECT_GT(with.served_below_90, 0.99) << shm;
    EXPECT_LT(with.refused, 0.01) << shm;
    EXPECT_LT(without.served_below_90, 0.6) << shm;
    EXPECT_EQ(without.moved_per_hour, 0) << shm;
  }
}

}  // namespace
}  // namespace comex::sim
