#include "cli/rdma_findings.h"

#include <fmt/format.h>

namespace comex {
namespace {

Finding judge_port(const RdmaDevice& device, const RdmaPort& port) {
  Finding finding{fmt::format("rdma {} port {}", device.name, port.number), Verdict::ok, "", ""};
  finding.what = fmt::format("{}, MTU {}, at most {} queue pairs", port.ethernet ? "RoCE" : "InfiniBand", port.mtu,
                             device.queue_pairs);
  for (std::size_t i = 0; i < port.gids.size(); ++i) {
    if (!port.gids[i].empty()) finding.what += fmt::format(", gid {} {}", i, port.gids[i]);
  }
  if (!port.active) {
    finding.verdict = Verdict::warning;
    finding.what += ", down";
    finding.remedy = "bring its network card up, or its subnet manager";
  } else if (port.mtu < 4096) {
    finding.remedy = "a page takes several packets: a network MTU of 4200 or more would make it one";
  }
  return finding;
}

}  // namespace

std::vector<Finding> check_rdma(bool needed) {
  return judge_rdma(rdma_devices(), needed);
}

std::vector<Finding> judge_rdma(const Expected<std::vector<RdmaDevice>>& devices, bool needed) {
  const Verdict lacking = needed ? Verdict::missing : Verdict::ok;
  if (!devices) return {Finding{"rdma", lacking, devices.error().message, ""}};
  if (devices->empty()) {
    return {Finding{"rdma", lacking, "no device", needed ? "use tcp://, or see docs/rdma.md" : ""}};
  }
  std::vector<Finding> findings;
  for (const RdmaDevice& device : *devices) {
    if (!device.refused.empty()) {
      findings.push_back(Finding{"rdma " + device.name, needed ? Verdict::missing : Verdict::warning,
                                 "it cannot be opened: " + device.refused, "see the permissions in /dev/infiniband"});
    }
    for (const RdmaPort& port : device.ports) findings.push_back(judge_port(device, port));
  }
  return findings;
}

}  // namespace comex
