#include "cli/doctor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <set>
#include <string_view>

#include <nlohmann/json.hpp>

#include "base/units.h"
#include "cli/ask_nodes.h"
#include "cli/backup_plan.h"
#include "cli/config_flags.h"
#include "cli/link_options.h"
#include "cli/machine.h"
#include "cli/rdma_findings.h"
#include "cli/replicas.h"
#include "cli/report.h"
#include "cli/run_plan.h"
#include "node/host_memory.h"

namespace comex {
namespace {

using Json = nlohmann::ordered_json;

std::string_view to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::ok: return "ok";
    case Verdict::warning: return "warning";
    case Verdict::missing: return "missing";
  }
  return "";
}

Finding judge_node(const NodeReport& report) {
  Finding finding{"node " + report.url.text(), Verdict::ok, "", ""};
  if (report.url.scheme == Url::Scheme::tls) {
    finding.verdict = Verdict::missing;
    finding.what = "programs cannot be run on tls:// nodes";
    finding.remedy = "use tcp://, or unix:// on this machine";
  } else if (!report.status) {
    finding.verdict = Verdict::missing;
    finding.what = report.error;
    finding.remedy = "start `comex serve` there, or take it out of the pool";
  } else {
    const std::uint64_t free = std::uint64_t{report.status->load.free_frames} << kPageShift;
    finding.what = fmt::format("{} free of {}, round trip {:.1f} us", format_size(free),
                               format_size(std::uint64_t{report.status->frames} << kPageShift),
                               std::chrono::duration<double, std::micro>(report.round_trip).count());
    if (free > 0) return finding;
    finding.verdict = Verdict::missing;
    finding.remedy = "it has nothing left to lend: end a client of it, or lend more";
  }
  return finding;
}

// One node that serves is enough.
std::vector<Finding> check_pool(const Config& config) {
  const PoolSettings& pool = config.pool;
  const auto host = read_host_memory();
  const auto plan = host ? plan_run(config.run, *host, pool.nodes.empty()) : host.error();
  if (!plan) return {Finding{"pool", Verdict::missing, plan.error().message, ""}};
  if (pool.nodes.empty()) {
    return {
        Finding{"pool", Verdict::ok, "none is configured: comex run lends memory of this machine to the program", ""}};
  }
  auto options = link_options(pool, "comex doctor");
  if (!options) return {Finding{"pool", Verdict::missing, options.error().message, "correct the configuration"}};
  options->observe = true;
  std::vector<Finding> findings;
  bool one_serves = false;
  std::vector<Url> serving;
  std::set<std::uint64_t> seen;  // one that has two URLs counts once
  for (const NodeReport& report : ask_nodes(pool.nodes, *options)) {
    findings.push_back(judge_node(report));
    one_serves = one_serves || findings.back().verdict == Verdict::ok;
    const bool serves = findings.back().verdict == Verdict::ok;
    if (serves && seen.insert(report.boot_id).second) serving.push_back(report.url);
  }
  if (const auto enough = check_replicas(config); !enough) {
    findings.push_back(Finding{"replicas", Verdict::missing, enough.error().message, ""});
  } else if (serving.size() > 0 && count_domains(serving) < config.run.nodes()) {
    findings.push_back(Finding{"replicas", Verdict::missing,
                               fmt::format("pages are to be spread over {} nodes, and {} serve that do not fail "
                                           "together",
                                           config.run.nodes(), count_domains(serving)),
                               "start `comex serve` on the others"});
  }
  const bool tls =
      std::any_of(pool.nodes.begin(), pool.nodes.end(), [](const Url& url) { return url.scheme == Url::Scheme::tls; });
  for (Finding& finding : findings) {
    const bool of_a_node = finding.check != "replicas";
    if (of_a_node && one_serves && !tls && finding.verdict == Verdict::missing) finding.verdict = Verdict::warning;
  }
  return findings;
}

void print(const std::vector<Finding>& findings, bool ready) {
  std::size_t width = 0;
  for (const Finding& finding : findings) width = std::max(width, finding.check.size());
  for (const Finding& finding : findings) {
    fmt::print("{:<7}  {:<{}}  {}{}{}\n", to_string(finding.verdict), finding.check, width, finding.what,
               finding.remedy.empty() ? "" : ": ", finding.remedy);
  }
  fmt::print("\n{}\n", ready ? "`comex run` can work here." : "`comex run` cannot work here yet; see what is missing.");
}

void print_json(const std::vector<Finding>& findings, bool ready) {
  Json json{{"ready", ready}, {"checks", Json::array()}};
  for (const Finding& finding : findings) {
    json["checks"].push_back(Json{{"check", finding.check},
                                  {"state", to_string(finding.verdict)},
                                  {"what", finding.what},
                                  {"remedy", finding.remedy}});
  }
  fmt::print("{}\n", json.dump(2, ' ', false, Json::error_handler_t::replace));
}

std::vector<Finding> check_backup(const Config& config) {
  const auto backup = plan_backup(config.run);
  if (!backup) return {Finding{"backup", Verdict::missing, backup.error().message, ""}};
  if (backup->folder.empty()) return {};
  return {Finding{"backup", Verdict::ok,
                  fmt::format("up to {} of the disk of {}", format_size(backup->bytes), backup->folder), ""}};
}

RdmaUse rdma_use(const Config& config) {
  const bool to_run = std::any_of(config.pool.nodes.begin(), config.pool.nodes.end(),
                                  [](const Url& url) { return url.scheme == Url::Scheme::rdma; });
  if (to_run) return RdmaUse::run;
  return config.serve.rdma.value_or("").empty() ? RdmaUse::none : RdmaUse::serve;
}

int doctor(const Config& config, bool json) {
  std::vector<Finding> findings = check_needs(Delivery::inline_signal);
  for (const auto& more : {check_comforts(), check_rdma(rdma_use(config)), check_pool(config), check_backup(config)}) {
    findings.insert(findings.end(), more.begin(), more.end());
  }
  const bool ready = !first_missing(findings);
  json ? print_json(findings, ready) : print(findings, ready);
  return ready ? 0 : kExitBadUsage;
}

}  // namespace

void add_doctor(CLI::App& app, int& exit_code) {
  CLI::App& command = *app.add_subcommand("doctor", "Is this machine ready to run programs, and what to do if not");
  auto flags = std::make_shared<ConfigFlags>();
  flags->add(command, "--pool", "pool.nodes", "URL,...", "The memory nodes to look at (those of the configuration)");
  flags->add(command, "--replicas", "run.replicas", "1|2|3", "On how many of them each page is to be kept");
  flags->add(command, "--backup", "run.backup", "DIR", "The folder that is to be the last resort");
  flags->add(command, "--backup-size", "run.backup_size", "SIZE|auto", "How much of its disk may be used");
  flags->add(command, "--code", "run.code", "K+M", "... or how pages are to be coded across them");
  flags->add(command, "--secret-file", "pool.secret_file", "FILE", "The secret shared with them");
  auto json = std::make_shared<bool>(false);
  command.add_flag("--json", *json, "For programs");
  command.callback([flags, json, &exit_code] {
    const auto config = flags->load();
    exit_code = config ? doctor(*config, *json) : fail(config.error());
  });
}

}  // namespace comex
