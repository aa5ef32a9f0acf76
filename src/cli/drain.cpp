#include "cli/drain.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <thread>

#include "base/clock.h"
#include "base/progress.h"
#include "base/units.h"
#include "cli/ask_nodes.h"
#include "cli/config_flags.h"
#include "cli/link_options.h"
#include "cli/report.h"
#include "run/programs.h"

namespace comex {
namespace {

constexpr Millis kAskEvery{200};
constexpr Millis kSayAfter{5'000};  // when nothing moves, or a program says that it cannot; then it is waited on

struct Request {
  std::string node;
  std::string timeout = "10min";
  bool undo = false;
};

// By its URL, or by its NID if the configured pool has it.
Expected<Url> find_node(const std::string& name, const PoolSettings& pool, const LinkOptions& options) {
  const bool number = !name.empty() && name.find_first_not_of("0123456789") == std::string::npos;
  if (!number) return parse_url(name);
  for (const NodeReport& report : ask_nodes(pool.nodes, options)) {
    if (report.status && std::to_string(report.status->nid.value) == name) return report.url;
  }
  return Error{Errc::invalid,
               fmt::format("no node of the pool has the id {}; name it by its URL, as tcp://HOST:7171", name)};
}

std::uint64_t bytes_of(std::uint32_t frames) {
  return std::uint64_t{frames} << kPageShift;
}

std::string what_stays(const Url& url, const wire::StatusReply& status) {
  const auto holders =
      std::count_if(status.clients.begin(), status.clients.end(), [](const auto& client) { return client.frames > 0; });
  return fmt::format("{} of {} client(s) are still on {}", format_size(bytes_of(status.lent)), holders, url.text());
}

// Programs on this machine that say that there is no room for their pages elsewhere.
std::string stuck_programs() {
  std::string names;
  for (const ProgramReport& program : programs_here()) {
    if (program.stuck) names += (names.empty() ? "" : ", ") + program.name;
  }
  return names;
}

// Of programs elsewhere nobody knows more than that they have not moved.
std::string why_it_stays() {
  const std::string names = stuck_programs();
  if (names.empty()) return "other nodes have no room for them, or a program does not answer";
  return fmt::format(
      "no other node has room for pages of {} (each copy is on a node of its own); add a memory node, or run it with "
      "--backup, which takes them (not together with --code)",
      names);
}

// Until nothing is lent and nothing of it is in memory.
int watch(Link& link, const Url& url, Millis timeout) {
  const auto begun = Clock::now();
  const Deadline deadline(timeout);
  auto status = link.status();
  if (!status) return fail(status.error());
  const std::uint32_t all = status->lent;
  std::uint32_t left = all;
  auto moved_at = begun;
  bool said = false;
  Progress progress("moving pages away", bytes_of(all));
  while (status->lent > 0 || status->present > 0) {
    if (deadline.passed()) {
      return fail(fmt::format("{} after {}: {}. It lends nothing more; `comex drain --undo {}` takes that back",
                              what_stays(url, *status), format_duration(timeout), why_it_stays(), url.text()),
                  kExitFailed);
    }
    // A program that cannot move its pages may still give some up, one by one.
    const bool late = Clock::now() >= begun + kSayAfter;
    if (late && !said && (Clock::now() >= moved_at + kSayAfter || !stuck_programs().empty())) {
      said = true;
      fmt::print(stderr, "comex: {}: {}. Waiting, for {} in all (--timeout)\n", what_stays(url, *status),
                 why_it_stays(), format_duration(timeout));
    }
    std::this_thread::sleep_for(kAskEvery);
    status = link.status();
    if (!status) return fail(status.error());
    if (status->lent >= left) continue;
    progress.advance(bytes_of(left - status->lent));
    left = status->lent;
    moved_at = Clock::now();
  }
  if (all > 0) progress.finish();
  fmt::print(
      "comex: {} is empty; {} were moved away in {}. It lends nothing until `comex drain --undo {}`, or until it "
      "is started again\n",
      url.text(), format_size(bytes_of(all)), format_duration(std::chrono::duration_cast<Millis>(Clock::now() - begun)),
      url.text());
  return 0;
}

int drain(const PoolSettings& pool, const Request& request) {
  const auto timeout = parse_duration(request.timeout);
  if (!timeout) return fail("--timeout: " + timeout.error().message, kExitBadUsage);
  auto options = link_options(pool, "comex drain");
  if (!options) return fail(options.error().message, kExitBadUsage);
  options->observe = true;
  const auto url = find_node(request.node, pool, *options);
  if (!url) return fail(url.error().message, kExitBadUsage);
  const auto link = connect(*url, *options);
  if (!link) return fail(link.error());
  if (auto told = (*link)->lend(request.undo ? UINT32_MAX : 0); !told) return fail(told.error());
  if (!request.undo) return watch(**link, *url, *timeout);
  fmt::print("comex: {} lends again\n", url->text());
  return 0;
}

}  // namespace

void add_drain(CLI::App& app, int& exit_code) {
  CLI::App& command = *app.add_subcommand("drain", "Empty a memory node: programs move their pages to others");
  auto flags = std::make_shared<ConfigFlags>();
  auto request = std::make_shared<Request>();
  command.add_option("NODE", request->node, "Its URL, or its id if it is in the pool")->required();
  command.add_option("--timeout", request->timeout, "Give up waiting after this time (10min)")->type_name("TIME");
  command.add_flag("--undo", request->undo, "Lend again");
  flags->add(command, "--pool", "pool.nodes", "URL,...", "The memory nodes: tcp://, tls:// or unix:// URLs");
  flags->add(command, "--secret-file", "pool.secret_file", "FILE", "The secret shared with the nodes");
  flags->add(command, "--tls-ca", "pool.tls_ca", "FILE", "The authority to trust for tls:// nodes (the system's)");
  flags->add(command, "--tls-cert", "pool.tls_cert", "FILE", "The certificate to show to tls:// nodes that ask");
  flags->add(command, "--tls-key", "pool.tls_key", "FILE", "... and its key");
  command.callback([flags, request, &exit_code] {
    const auto config = flags->load();
    exit_code = config ? drain(config->pool, *request) : fail(config.error());
  });
}

}  // namespace comex
