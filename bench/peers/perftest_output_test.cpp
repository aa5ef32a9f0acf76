// Output of perftest 4.5, as it came.
#include "bench/peers/perftest_output.h"

#include <gtest/gtest.h>

namespace comex::bench {
namespace {

constexpr const char* kLatency = R"(Device not recognized to implement inline feature. Disabling it
---------------------------------------------------------------------------------------
---------------------------------------------------------------------------------------
                    RDMA_Read Latency Test
 Dual-port       : OFF		Device         : rxe0
 Number of qps   : 1		Transport type : IB
 Outstand reads  : 128
 rdma_cm QPs	 : OFF
 Data ex. method : Ethernet
---------------------------------------------------------------------------------------
 local address: LID 0000 QPN 0x001a PSN 0x92e35f OUT 0x80 RKey 0x000b58 VAddr 0x00564d46097000
 GID: 00:00:00:00:00:00:00:00:00:00:255:255:10:09:00:01
---------------------------------------------------------------------------------------
 #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec] 
 4096    500          64.02          4209.91      75.65    	       79.51       	41.64  		235.28  		4209.91
---------------------------------------------------------------------------------------
)";

std::string bandwidth(const std::string& unit, const std::string& average) {
  return " rdma_cm QPs\t : OFF\n #bytes     #iterations    BW peak[" + unit + "]    BW average[" + unit +
         "]   MsgRate[Mpps]\n 262144     20               0.00               " + average +
         "  \t\t   0.000269\n-----------------\n";
}

TEST(PerftestOutput, latency) {
  const auto found = parse_perftest_latency(kLatency);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->p50, 75.65);
  EXPECT_EQ(found->p99, 235.28);
  EXPECT_EQ(found->mean, 79.51);
  EXPECT_EQ(found->count, 500u);
}

TEST(PerftestOutput, bandwidth_ofOlderAndNewerVersions) {
  for (const char* unit : {"MB/sec", "MiB/sec"}) {
    const auto found = parse_perftest_bandwidth(bandwidth(unit, "67.16"));
    ASSERT_TRUE(found) << found.error().message;
    EXPECT_DOUBLE_EQ(*found, 67.16 * 1024 * 1024);
  }
}

TEST(PerftestOutput, anotherUnitIsNotTakenForThis) {
  EXPECT_FALSE(parse_perftest_bandwidth(bandwidth("Gb/sec", "67.16")));
}

// "Correlation coefficient r^2: 0.867982 < 0.9" comes before it.
TEST(PerftestOutput, withoutAClockThereIsNoFigure) {
  EXPECT_FALSE(parse_perftest_bandwidth(bandwidth("MB/sec", "0.00")));
  EXPECT_FALSE(parse_perftest_bandwidth(bandwidth("MB/sec", "inf")));
}

TEST(PerftestOutput, failures) {
  const std::string latency = kLatency;
  const std::string cut = latency.substr(0, latency.find(" 4096    500"));
  EXPECT_FALSE(parse_perftest_latency(""));
  EXPECT_FALSE(parse_perftest_latency(cut));
  EXPECT_FALSE(parse_perftest_latency(cut + " Completion with error at client\n Failed status 10: wr_id 0\n"));
  EXPECT_FALSE(parse_perftest_latency(bandwidth("MB/sec", "67.16")));
  EXPECT_FALSE(parse_perftest_bandwidth(latency));
}

}  // namespace
}  // namespace comex::bench
