#include "run/keeper/run_report.h"

#include <fmt/format.h>

#include <numeric>

#include <nlohmann/json.hpp>

#include "base/units.h"
#include "pager/pager.h"
#include "pool/code_text.h"

namespace comex {
namespace {

using Json = nlohmann::ordered_json;

std::uint64_t faults(const Figures& figures, Served served) {
  return figures.faults[static_cast<std::size_t>(served)];
}

std::uint64_t all_faults(const Figures& figures) {
  return faults(figures, Served::zeros) + faults(figures, Served::written) + faults(figures, Served::staged) +
         faults(figures, Served::buffered) + faults(figures, Served::remote);
}

double seconds_in_faults(const Figures& figures) {
  return static_cast<double>(figures.fault_ns) / 1e9;
}

// How long before its use a page of the read buffer had been asked for, at most; null if none was.
Json lead_us(const Figures& figures, double quantile) {
  const std::uint64_t all = std::accumulate(figures.leads.begin(), figures.leads.end(), std::uint64_t{0});
  std::uint64_t below = 0;
  for (std::size_t i = 0; i < figures.leads.size() && all > 0; ++i) {
    below += figures.leads[i];
    if (static_cast<double>(below) >= quantile * static_cast<double>(all)) return std::uint64_t{1} << i;
  }
  return {};
}

std::string url_of(const RunReport& report, std::uint16_t node) {
  const auto found = report.nodes.find(node);
  return found != report.nodes.end() ? found->second : fmt::format("session {}", node);
}

Json figures_json(const Figures& figures, const RunReport& report) {
  Json json{{"faults", Json{{"first_touch", faults(figures, Served::zeros)},
                            {"write_to_clean_page", faults(figures, Served::written)},
                            {"from_staging", faults(figures, Served::staged)},
                            {"from_read_buffer", faults(figures, Served::buffered)},
                            {"from_node", faults(figures, Served::remote)},
                            {"resolved_by_another_thread", faults(figures, Served::already)}}},
            {"seconds_in_faults", seconds_in_faults(figures)},
            {"pages_in", figures.pages_in},
            {"pages_prefetched", figures.pages_along + figures.pages_around},
            {"pages_prefetched_used", figures.along_used + figures.around_used},
            {"prefetch_lead_us", Json{{"p50", lead_us(figures, 0.50)}, {"p95", lead_us(figures, 0.95)}}},
            {"profile", Json{{"faults_known", figures.known}, {"faults_unknown", figures.unknown}}},
            {"pages_out", figures.evicted - figures.dropped},
            {"pages_dropped_clean", figures.dropped},
            {"pages_wrong", figures.wrong},
            {"pages_mended", figures.mended},
            {"evictions_by_faults", figures.evictions_by_faults},
            {"waits", figures.waits},
            {"calls", Json{{"trapped", figures.calls}, {"direct", figures.direct_calls}}},
            {"nodes", Json::array()}};
  for (const auto& [node, link] : figures.links) {
    json["nodes"].push_back(Json{{"url", url_of(report, node)},
                                 {"bytes_read", link.pages_read << kPageShift},
                                 {"bytes_written", link.pages_written << kPageShift},
                                 {"reads", link.reads},
                                 {"writes", link.writes}});
  }
  return json;
}

}  // namespace

std::string to_json(const RunReport& report, const Census& census) {
  Json json{{"program", report.program},
            {"seconds", static_cast<double>(report.took.count()) / 1e3},
            {"local_limit_bytes", report.local},
            {"local_peak_bytes", report.local_peak},
            {"processes", census.ended_count()},
            {"code", report.code.coded() ? to_text(report.code) : "none"},
            {"replicas", Json{{"copies", report.replicas},
                              {"pages_copied_again", report.status.mended},
                              {"pages_with_fewer_copies", report.status.thin}}}};
  if (!report.backup.empty()) {
    const BackupStatus& backup = report.status.backup;
    json["backup"] = Json{{"folder", report.backup},
                          {"limit_bytes", backup.limit << kPageShift},
                          {"used_bytes_peak", backup.peak << kPageShift},
                          {"pages_copied", backup.copied},
                          {"pages_behind", backup.behind},
                          {"pages_moved_back", report.status.moved_back}};
  }
  json.update(figures_json(census.total(), report));
  json["per_process"] = Json::array();
  for (const ProcessFigures& process : census.ended()) {
    Json each{{"pid", process.pid}, {"name", process.name}, {"local_peak_bytes", process.figures.peak << kPageShift}};
    each.update(figures_json(process.figures, report));
    json["per_process"].push_back(std::move(each));
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string to_summary(const RunReport& report, const Census& census) {
  const Figures& all = census.total();
  const auto bytes = [](std::uint64_t pages) { return format_size(pages << kPageShift); };
  std::string text = fmt::format("comex: {}: {}, {} process{}\n", report.program, format_duration(report.took),
                                 census.ended_count(), census.ended_count() == 1 ? "" : "es");
  const auto line = [&](const char* what, const std::string& how) { text += fmt::format("  {:<14} {}\n", what, how); };
  line("local", fmt::format("at most {} of {}", format_size(report.local_peak), format_size(report.local)));
  line("faults",
       fmt::format("{} in {:.2f} s: {} first touches, {} from staging, {} from the read buffer, {} from nodes, {} "
                   "writes to clean pages",
                   all_faults(all), seconds_in_faults(all), faults(all, Served::zeros), faults(all, Served::staged),
                   faults(all, Served::buffered), faults(all, Served::remote), faults(all, Served::written)));
  line("in", fmt::format("{}; {} pages prefetched, {} of them used", bytes(all.pages_in),
                         all.pages_along + all.pages_around, all.along_used + all.around_used));
  line("out",
       fmt::format("{}; {} dropped, as they had not changed", bytes(all.evicted - all.dropped), bytes(all.dropped)));
  if (all.wrong > 0) line("wrong", fmt::format("{} pages came back changed; {} of them mended", all.wrong, all.mended));
  line("system calls", fmt::format("{} trapped, {} direct", all.calls, all.direct_calls));
  if (!report.backup.empty()) {
    line("backup", fmt::format("{}: {} copied behind the program, at most {} of {} used", report.backup,
                               bytes(report.status.backup.copied), bytes(report.status.backup.peak),
                               bytes(report.status.backup.limit)));
  }
  for (const auto& [node, link] : all.links) {
    if (link.reads + link.writes == 0) continue;
    line("node", fmt::format("{}: {} read in {} transfers, {} written in {}", url_of(report, node),
                             bytes(link.pages_read), link.reads, bytes(link.pages_written), link.writes));
  }
  return text;
}

}  // namespace comex
