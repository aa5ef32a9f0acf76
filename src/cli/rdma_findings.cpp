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

Verdict verdict_without(RdmaUse use) {
  switch (use) {
    case RdmaUse::none: return Verdict::ok;
    case RdmaUse::serve: return Verdict::warning;
    case RdmaUse::run: break;
  }
  return Verdict::missing;
}

std::string remedy_without(RdmaUse use) {
  switch (use) {
    case RdmaUse::none: return "";
    case RdmaUse::serve: return "comex serve is to listen for RDMA: see docs/rdma.md, or take `rdma` out of [serve]";
    case RdmaUse::run: break;
  }
  return "use tcp://, or see docs/rdma.md";
}

}  // namespace

std::vector<Finding> check_rdma(RdmaUse use) {
  return judge_rdma(rdma_devices(), use);
}

std::vector<Finding> judge_rdma(const Expected<std::vector<RdmaDevice>>& devices, RdmaUse use) {
  const bool needed = use == RdmaUse::run;
  if (!devices) {
    return {Finding{"rdma", verdict_without(use), devices.error().message, needed ? "" : remedy_without(use)}};
  }
  if (devices->empty()) return {Finding{"rdma", verdict_without(use), "no device", remedy_without(use)}};
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
