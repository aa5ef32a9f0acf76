#include "cli/status.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/units.h"
#include "cli/ask_nodes.h"
#include "cli/config_flags.h"
#include "cli/link_options.h"
#include "cli/report.h"
#include "pool/code_text.h"
#include "run/programs.h"

namespace comex {
namespace {

using Json = nlohmann::ordered_json;

std::uint64_t bytes_of(std::uint64_t frames) {
  return frames << kPageShift;
}

double microseconds(Nanos time) {
  return std::chrono::duration<double, std::micro>(time).count();
}

// --- for programs ---

Json client_json(const wire::StatusReply::Client& client) {
  return Json{{"id", client.id.value},
              {"name", client.name},
              {"peer", client.peer},
              {"pid", client.pid},
              {"bytes", bytes_of(client.frames)},
              {"silent_ms", client.silent_ms}};
}

Json node_json(const NodeReport& report) {
  Json json{{"url", report.url.text()}, {"state", report.status ? "up" : "unreachable"}};
  if (!report.status) {
    json["error"] = report.error;
    return json;
  }
  const auto& status = *report.status;
  json["nid"] = status.nid.value;
  json["size_bytes"] = bytes_of(status.frames);
  json["goal_bytes"] = bytes_of(status.goal);
  json["present_bytes"] = bytes_of(status.present);
  json["used_bytes"] = bytes_of(status.lent);
  json["free_bytes"] = bytes_of(status.load.free_frames);
  json["largest_free_extent_bytes"] = bytes_of(status.load.largest_free);
  json["metadata_bytes"] = status.metadata_bytes;
  json["round_trip_us"] = microseconds(report.round_trip);
  json["grant_service_us"] = microseconds(Nanos(status.load.service_ns));
  json["uptime_ms"] = status.uptime_ms;
  json["pages_read"] = status.pages_read;
  json["pages_written"] = status.pages_written;
  json["pages_pulled"] = status.pages_pulled ? Json(*status.pages_pulled) : Json();
  json["client_count"] = status.client_count;
  json["clients"] = Json::array();
  for (const auto& client : status.clients) json["clients"].push_back(client_json(client));
  return json;
}

Json program_json(const ProgramReport& report) {
  return Json{{"name", report.name},
              {"pid", report.pid},
              {"bytes", bytes_of(report.pages)},
              {"on_disk_bytes", bytes_of(report.on_disk)},
              {"backup_behind_bytes", bytes_of(report.behind)},
              {"held_bytes", bytes_of(report.held)},
              {"free_bytes", bytes_of(report.free)},
              {"dead_bytes", bytes_of(report.dead)},
              {"copies", report.copies},
              {"code", report.code.coded() ? to_text(report.code) : "none"},
              {"processes", report.processes},
              {"nodes_away", report.nodes_away},
              {"well", report.well()},
              {"copying", Json{{"done_bytes", bytes_of(report.copied)}, {"total_bytes", bytes_of(report.to_copy)}}},
              {"moving", Json{{"done_bytes", bytes_of(report.moved)}, {"total_bytes", bytes_of(report.to_move)}}},
              {"straight_bytes", bytes_of(report.straight)},
              {"bytes_per_second", bytes_of(report.rate)},
              {"no_room_elsewhere", report.stuck}};
}

void print_json(const std::vector<NodeReport>& reports, const std::vector<ProgramReport>& programs) {
  Json json{{"nodes", Json::array()}, {"programs", Json::array()}};
  for (const auto& report : reports) json["nodes"].push_back(node_json(report));
  for (const auto& program : programs) json["programs"].push_back(program_json(program));
  // A client's name is what the client says it is: bytes that are not UTF-8 must not end the command.
  fmt::print("{}\n", json.dump(2, ' ', false, Json::error_handler_t::replace));
}

// --- for people ---

constexpr std::size_t kColumns = 9;
using Row = std::array<std::string, kColumns>;

Row row_of(const NodeReport& report) {
  if (!report.status) return Row{report.url.text(), "-", "unreachable: " + report.error};
  const auto& status = *report.status;
  const double trip = microseconds(report.round_trip);
  return Row{report.url.text(),
             std::to_string(status.nid.value),
             status.present > status.goal ? "giving back"
             : status.goal == 0           ? "drained"
                                          : "up",
             format_size(bytes_of(status.present)),
             format_size(bytes_of(status.lent)),
             format_size(bytes_of(status.load.free_frames)),
             format_size(bytes_of(status.load.largest_free)),
             std::to_string(status.client_count),
             trip < 1'000 ? fmt::format("{:.1f} us", trip) : fmt::format("{:.2f} ms", trip / 1'000)};
}

// Text to the left, numbers to the right. An unreachable node has only the first three columns, and its reason runs on
// over the others.
void print_table(const std::vector<NodeReport>& reports) {
  constexpr std::size_t kUrl = 0, kState = 2;
  std::vector<Row> rows{Row{"NODE", "NID", "STATE", "SIZE", "USED", "FREE", "LARGEST FREE", "CLIENTS", "ROUND TRIP"}};
  for (const auto& report : reports) rows.push_back(row_of(report));

  std::array<std::size_t, kColumns> widths{};
  for (const Row& row : rows) {
    const bool whole = !row.back().empty();
    for (std::size_t i = 0; i < (whole ? kColumns : kState); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  for (const Row& row : rows) {
    const bool whole = !row.back().empty();
    std::string line;
    for (std::size_t i = 0; i < (whole ? kColumns : kState + 1); ++i) {
      const bool left = i == kUrl || i == kState;
      if (i > 0) line += "  ";
      line += left ? fmt::format("{:<{}}", row[i], widths[i]) : fmt::format("{:>{}}", row[i], widths[i]);
    }
    fmt::print("{}\n", line);
  }
}

// How the copies and moves of a program are.
std::string state_of(const ProgramReport& report) {
  const auto part = [&](const char* what, std::uint64_t done, std::uint64_t all) {
    return fmt::format("{} {} of {}, {}/s", what, format_size(bytes_of(done)), format_size(bytes_of(all)),
                       format_size(bytes_of(report.rate)));
  };
  std::string state;
  const auto add = [&](const std::string& what) { state += (state.empty() ? "" : "; ") + what; };
  if (report.copied < report.to_copy) add(part("copying", report.copied, report.to_copy));
  if (report.moved < report.to_move) add(part("moving", report.moved, report.to_move));
  if (report.on_disk > 0) add(fmt::format("{} on the disk alone", format_size(bytes_of(report.on_disk))));
  if (report.behind > 0) add(fmt::format("{} to be copied to the disk", format_size(bytes_of(report.behind))));
  if (report.stuck) add("no other node has room");
  if (report.nodes_away > 0) add(fmt::format("{} node(s) do not answer", report.nodes_away));
  if (!state.empty()) return state;
  return report.code.coded() ? "all parity complete" : "all copies complete";
}

void print_programs(const std::vector<ProgramReport>& programs) {
  if (programs.empty()) return;
  std::size_t width = std::string_view("PROGRAM").size();
  for (const auto& program : programs) width = std::max(width, program.name.size());
  fmt::print("\n{:<{}}  {:>8}  {:>10}  COPIES  STATE\n", "PROGRAM", width, "PID", "IN POOL");
  for (const auto& program : programs) {
    fmt::print("{:<{}}  {:>8}  {:>10}  {:>6}  {}\n", program.name, width, program.pid,
               format_size(bytes_of(program.pages)),
               program.code.coded() ? to_text(program.code) : std::to_string(program.copies), state_of(program));
  }
}

// Pages are found by NID: two nodes must not have the same one. The same node seen over two URLs is no clash.
void warn_of_equal_nids(const std::vector<NodeReport>& reports) {
  for (std::size_t i = 0; i < reports.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const auto &a = reports[j], &b = reports[i];
      if (!a.status || !b.status || a.status->nid != b.status->nid || a.boot_id == b.boot_id) continue;
      fmt::print(stderr, "comex: {} and {} are both node {}; give one of them another --nid\n", a.url.text(),
                 b.url.text(), a.status->nid.value);
    }
  }
}

int status(const PoolSettings& pool, bool json) {
  if (pool.nodes.empty()) {
    return fail(
        "no memory nodes are configured: name them with --pool tcp://HOST:7171,... or COMEX_POOL, or as nodes = "
        "[\"tcp://HOST:7171\"] under [pool] in ~/.config/comex/comex.toml",
        kExitBadUsage);
  }
  auto options = link_options(pool, "comex status");
  if (!options) return fail(options.error().message, kExitBadUsage);
  options->observe = true;
  const auto reports = ask_nodes(pool.nodes, *options);
  const auto programs = programs_here();
  if (json) {
    print_json(reports, programs);
  } else {
    print_table(reports);
    print_programs(programs);
  }
  warn_of_equal_nids(reports);
  const bool all_up = std::all_of(reports.begin(), reports.end(), [](const auto& r) { return r.status.has_value(); });
  return all_up ? 0 : kExitFailed;
}

}  // namespace

void add_status(CLI::App& app, int& exit_code) {
  CLI::App& command =
      *app.add_subcommand("status", "Show every memory node of the pool, and the programs of this machine");
  auto flags = std::make_shared<ConfigFlags>();
  flags->add(command, "--pool", "pool.nodes", "URL,...", "The memory nodes: tcp://, tls:// or unix:// URLs");
  flags->add(command, "--secret-file", "pool.secret_file", "FILE", "The secret shared with the nodes");
  flags->add(command, "--tls-ca", "pool.tls_ca", "FILE", "The authority to trust for tls:// nodes (the system's)");
  flags->add(command, "--tls-cert", "pool.tls_cert", "FILE", "The certificate to show to tls:// nodes that ask");
  flags->add(command, "--tls-key", "pool.tls_key", "FILE", "... and its key");
  auto json = std::make_shared<bool>(false);
  command.add_flag("--json", *json, "Everything, for programs");
  command.callback([flags, json, &exit_code] {
    const auto config = flags->load();
    exit_code = config ? status(config->pool, *json) : fail(config.error());
  });
}

}  // namespace comex
