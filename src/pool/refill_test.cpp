#include "pool/refill.h"

#include <gtest/gtest.h>

#include <limits>
#include <thread>
#include <vector>

namespace comex {
namespace {

// Section 3.3.3 of the paper: 12 memory nodes, 10 compute nodes, P near 1.
constexpr RefillModel kPaper{50, 4.54, 6.0, 10, 12, 1.0};

TEST(Refill, expectedRtt_isThePapers) {
  EXPECT_NEAR(expected_rtt_us(kPaper), 10.54 + 6.0 * 9 / 12, 1e-9);
}

TEST(Refill, framesPerRoundTrip_isThePapers752) {
  EXPECT_NEAR(frames_per_round_trip(kPaper), 752, 0.5);
}

TEST(Refill, expectedRtt_hasNoQueueForASingleClient) {
  RefillModel model = kPaper;
  model.clients = 1;
  EXPECT_NEAR(expected_rtt_us(model), 10.54, 1e-9);
  model.clients = 0;  // a node that counts nobody
  EXPECT_NEAR(expected_rtt_us(model), 10.54, 1e-9);
}

TEST(Refill, threshold_staysWithinLimits) {
  const RefillConfig config;
  EXPECT_EQ(refill_threshold(kPaper, config), 1024U);
  RefillModel model = kPaper;
  model.network_us = 100;
  EXPECT_EQ(refill_threshold(model, config), 5525U);  // 50 * (100 + 6 + 4.5)
  model.network_us = 1e6;
  EXPECT_EQ(refill_threshold(model, config), 16384U);
  model.network_us = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(refill_threshold(model, config), 1024U);
}

TEST(Refill, threshold_leavesASmallNodeItsMemory) {
  const RefillConfig config;
  RefillModel model = kPaper;
  model.network_us = 1e6;
  model.free_frames = 1 << 16;
  EXPECT_EQ(refill_threshold(model, config), 4096U);
  model.free_frames = 100;
  EXPECT_EQ(refill_threshold(model, config), 1024U);
}

TEST(Refill, threshold_riseWithClientsAndFallsWithNodes) {
  RefillConfig config;
  config.min_threshold = 1;
  RefillModel more_clients = kPaper;
  more_clients.clients = 100;
  EXPECT_GT(refill_threshold(more_clients, config), refill_threshold(kPaper, config));
  RefillModel more_nodes = kPaper;
  more_nodes.nodes = 100;
  EXPECT_LT(refill_threshold(more_nodes, config), refill_threshold(kPaper, config));
}

TEST(Refill, framesToAsk_fillsUpToTwiceTheThresholdInWholeExtents) {
  const RefillConfig config;
  EXPECT_EQ(frames_to_ask(1024, 1024, config), 0U);
  EXPECT_EQ(frames_to_ask(1024, 5000, config), 0U);
  EXPECT_EQ(frames_to_ask(1024, 0, config), 2048U);
  EXPECT_EQ(frames_to_ask(1024, 1023, config), 1152U);  // 1025, rounded up to extents of 128
  EXPECT_EQ(frames_to_ask(0, 0, config), 0U);
  EXPECT_EQ(frames_to_ask(16384, 0, config), 2048U) << "no more at a time";
}

TEST(RateMeter, peak_isThatOfTheFastestWindow) {
  RateMeter meter;
  EXPECT_EQ(meter.peak_per_us(), 0);
  for (int i = 0; i < 4096; ++i) meter.add(1);
  const double busy = meter.peak_per_us();
  EXPECT_GT(busy, 0);
  std::this_thread::yield();
  meter.add(256);
  EXPECT_GE(meter.peak_per_us(), busy);  // an idle stretch does not dilute it
}

TEST(RateMeter, decay_halvesPerHalfLife) {
  RateMeter meter;
  for (int i = 0; i < 4096; ++i) meter.add(1);
  const double busy = meter.peak_per_us();
  meter.decay(Millis(20), Millis(10));
  EXPECT_NEAR(meter.peak_per_us(), busy / 4, busy * 1e-6);
}

TEST(RateMeter, add_fromManyThreads) {
  RateMeter meter;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 10'000; ++i) meter.add(3);
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_GT(meter.peak_per_us(), 0);
}

TEST(RefillEstimator, roundTrip_followsMeasurements) {
  RefillEstimator estimator{RefillConfig{}};
  EXPECT_EQ(estimator.round_trip(), Nanos(0));
  estimator.saw_round_trip(std::chrono::microseconds(100));
  EXPECT_EQ(estimator.round_trip(), std::chrono::microseconds(100));
  estimator.saw_round_trip(std::chrono::microseconds(180));
  EXPECT_EQ(estimator.round_trip(), std::chrono::microseconds(110));
  for (int i = 0; i < 100; ++i) estimator.saw_round_trip(std::chrono::microseconds(200));
  EXPECT_NEAR(static_cast<double>(estimator.round_trip().count()), 200e3, 1e3);
}

TEST(RefillEstimator, model_takesServiceAndClientsFromTheNode) {
  RefillEstimator estimator{RefillConfig{}};
  estimator.saw_round_trip(std::chrono::microseconds(50));
  estimator.saw_load(wire::NodeLoad{.free_frames = 1, .largest_free = 1, .clients = 5, .service_ns = 10'000});
  const auto model = estimator.model(2.0, 4);
  EXPECT_NEAR(model.network_us, 40, 1e-6);
  EXPECT_NEAR(model.service_us, 10, 1e-6);
  EXPECT_NEAR(expected_rtt_us(model), 50 + 10 * 4.0 / 4, 1e-6);
  EXPECT_NEAR(frames_per_round_trip(model), 120, 1e-6);
}

}  // namespace
}  // namespace comex
