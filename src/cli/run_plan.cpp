#include "cli/run_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/units.h"

namespace comex {
namespace {

constexpr std::uint64_t kLeastOwnNode = std::uint64_t{1} << 30;
constexpr std::uint64_t kOwnNodeShare = 4;  // of a small budget: so many times as much is lent

Error invalid(std::string message) {
  return Error{Errc::invalid, std::move(message)};
}

}  // namespace

Expected<RunPlan> plan_run(const RunSettings& settings, const HostMemory& host, bool own_node) {
  HostMemory plain = host;
  plain.huge_free = 0;  // programs do not get those
  const std::uint64_t spare = spare_memory(plain);
  RunPlan plan;
  plan.local = settings.local.value_or(own_node ? spare / 2 : spare);
  if (plan.local < RunPlan::kLeastLocal) {
    if (settings.local) {
      return invalid(
          fmt::format("--local {}: the least is {}", format_size(plan.local), format_size(RunPlan::kLeastLocal)));
    }
    return invalid(
        fmt::format("--local auto: this {} can spare {} and the least is {}; end something, or say --local {}",
                    host.limited ? "control group" : "host", format_size(plan.local), format_size(RunPlan::kLeastLocal),
                    format_size(RunPlan::kLeastLocal)));
  }
  plan.local &= ~std::uint64_t{kPageSize - 1};
  const std::uint64_t beyond = host.available - std::min(host.available, plan.local);
  plan.hard = settings.hard.value_or(plan.local + beyond / 2);
  if (plan.hard < plan.local) {
    return invalid(fmt::format("--hard {} is less than --local {}; give as much or more", format_size(plan.hard),
                               format_size(plan.local)));
  }
  if (!own_node) return plan;
  const std::uint64_t left = spare - std::min(spare, plan.local);
  plan.own_memory = std::min(left, std::max(kOwnNodeShare * plan.local, kLeastOwnNode));
  if (plan.own_memory < RunPlan::kLeastLocal) {
    return invalid(
        fmt::format("no pool is configured, and this {} has no memory to spare beyond --local {}; lower "
                    "--local, or name memory nodes with --pool tcp://HOST:7171,...",
                    host.limited ? "control group" : "host", format_size(plan.local)));
  }
  return plan;
}

}  // namespace comex
