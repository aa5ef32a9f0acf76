#include "cli/rdma_findings.h"

#include <gtest/gtest.h>

namespace comex {
namespace {

using Devices = Expected<std::vector<RdmaDevice>>;

RdmaDevice device() {
  RdmaPort port;
  port.active = port.ethernet = true;
  port.mtu = 4096;
  port.gids = {"fe80::1", "", "", "10.0.0.5"};
  RdmaDevice device;
  device.name = "mlx5_0";
  device.queue_pairs = 131072;
  device.ports = {port};
  return device;
}

bool says(const Finding& finding, const char* what) {
  return finding.what.find(what) != std::string::npos;
}

TEST(RdmaFindings, judge_portWithItsAddresses) {
  const auto findings = judge_rdma(Devices({device()}), RdmaUse::run);
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].check, "rdma mlx5_0 port 1");
  EXPECT_EQ(findings[0].verdict, Verdict::ok);
  EXPECT_EQ(findings[0].what, "RoCE, MTU 4096, at most 131072 queue pairs, gid 0 fe80::1, gid 3 10.0.0.5");
  EXPECT_TRUE(findings[0].remedy.empty());
}

TEST(RdmaFindings, judge_portThatIsDown) {
  auto down = device();
  down.ports[0].active = false;
  const auto findings = judge_rdma(Devices({down}), RdmaUse::none);
  EXPECT_EQ(findings.at(0).verdict, Verdict::warning);
  EXPECT_TRUE(says(findings[0], "down")) << findings[0].what;
  EXPECT_FALSE(findings[0].remedy.empty());
}

TEST(RdmaFindings, judge_smallMtuIsNoFaultButWorthAWord) {
  auto small = device();
  small.ports[0].mtu = 1024;
  small.ports[0].ethernet = false;
  const auto findings = judge_rdma(Devices({small}), RdmaUse::run);
  EXPECT_EQ(findings.at(0).verdict, Verdict::ok);
  EXPECT_TRUE(says(findings[0], "InfiniBand, MTU 1024")) << findings[0].what;
  EXPECT_NE(findings[0].remedy.find("4200"), std::string::npos);
}

TEST(RdmaFindings, judge_deviceThatCannotBeOpened) {
  auto shut = device();
  shut.refused = "Permission denied";
  shut.ports.clear();
  EXPECT_EQ(judge_rdma(Devices({shut}), RdmaUse::none).at(0).verdict, Verdict::warning);
  const auto findings = judge_rdma(Devices({shut}), RdmaUse::run);
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].verdict, Verdict::missing);
  EXPECT_TRUE(says(findings[0], "Permission denied")) << findings[0].what;
}

TEST(RdmaFindings, judge_noDeviceMattersOnlyIfOneIsNeeded) {
  EXPECT_EQ(judge_rdma(Devices(std::vector<RdmaDevice>()), RdmaUse::none).at(0).verdict, Verdict::ok);
  const auto findings = judge_rdma(Devices(std::vector<RdmaDevice>()), RdmaUse::run);
  EXPECT_EQ(findings.at(0).verdict, Verdict::missing);
  EXPECT_FALSE(findings[0].remedy.empty());
}

// Programs can run all the same.
TEST(RdmaFindings, judge_noDeviceIsWorthAWarningIfThisMachineServes) {
  const auto findings = judge_rdma(Devices(std::vector<RdmaDevice>()), RdmaUse::serve);
  EXPECT_EQ(findings.at(0).verdict, Verdict::warning);
  EXPECT_NE(findings[0].remedy.find("[serve]"), std::string::npos) << findings[0].remedy;
}

TEST(RdmaFindings, judge_noLibrary) {
  const Devices none = Error{Errc::unsupported, "install rdma-core"};
  EXPECT_EQ(judge_rdma(none, RdmaUse::none).at(0).verdict, Verdict::ok);
  EXPECT_EQ(judge_rdma(none, RdmaUse::serve).at(0).verdict, Verdict::warning);
  const auto findings = judge_rdma(none, RdmaUse::run);
  EXPECT_EQ(findings.at(0).verdict, Verdict::missing);
  EXPECT_EQ(findings[0].what, "install rdma-core");
}

}  // namespace
}  // namespace comex
