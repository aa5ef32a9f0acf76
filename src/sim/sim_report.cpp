#include "sim/sim_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace comex::sim {

namespace {

using nlohmann::json;

std::string threshold_text(const RefillResult& result) {
  if (result.threshold > 0) return std::to_string(result.threshold);
  return fmt::format("eq. (1): {:.0f}", result.mean_threshold);
}

// The value below which this share of the sorted values lies; 0 if there are none.
double quantile(const std::vector<double>& sorted, double share) {
  if (sorted.empty()) return 0;
  return sorted[static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1))];
}

// Chunks lost, of a million that are held for a year.
double lost_in_a_million_years(const ClusterResult& result) {
  constexpr double kYear = 365;
  return result.chunk_days > 0 ? static_cast<double>(result.chunks_lost) / result.chunk_days * kYear * 1e6 : 0;
}

std::string refill_text(const SimFigures& figures) {
  const RefillStudy& study = figures.refill_study;
  std::string text = fmt::format(
      "refill: {} clients of {} nodes take up to {} pages/us in bursts, for {} s\n"
      "{:>16} {:>14} {:>14} {:>12} {:>12} {:>12}\n",
      study.clients, study.nodes, study.peak_pages_per_us, study.seconds, "T", "stood still, %", "worst client",
      "at hand", "trip, us", "expected");
  for (const RefillResult& each : figures.refill) {
    text += fmt::format("{:>16} {:>14.3f} {:>14.2f} {:>12.0f} {:>12.0f} {:>12.0f}\n", threshold_text(each),
                        100 * each.stood_still, 100 * each.worst_client, each.mean_at_hand, each.round_trip_us,
                        each.expected_us);
  }
  return text;
}

std::string cluster_text(const SimFigures& figures) {
  const ClusterStudy& study = figures.cluster_study;
  const ClusterResult& result = figures.cluster;
  const double refused =
      result.asked > 0 ? 100.0 * static_cast<double>(result.refused) / static_cast<double>(result.asked) : 0;
  std::string text =
      fmt::format("\ncluster: {} nodes in {} domains, {} programs, {} copies, {} days, a node fails every {} days\n",
                  study.nodes, study.domains, study.clients, study.copies, study.days, study.node_days);
  text += fmt::format("  balance: the fullest node has {:.2f} x the mean use ({:.2f} x at worst)\n", result.balance,
                      result.worst_balance);
  text += fmt::format(
      "  chunks asked for {}, refused {} ({:.4f} %){}\n", result.asked, result.refused, refused,
      result.refused > 0 ? fmt::format(", the first when {:.1f} % was in use", 100 * result.use_when_refused) : "");
  text += fmt::format(
      "  failures {}: copies lost {}, made again {}; all there again after {:.1f} s (median), {:.1f} s "
      "(95 %), {:.1f} s (longest)\n",
      result.failures, result.copies_lost, result.copies_made, quantile(result.repair_seconds, 0.5),
      quantile(result.repair_seconds, 0.95), quantile(result.repair_seconds, 1));
  text += fmt::format("  chunks lost {}, programs lost {}\n", result.chunks_lost, result.programs_lost);
  return text;
}

std::string losses_text(const SimFigures& figures) {
  if (figures.losses.empty()) return "";
  std::string text =
      fmt::format("\nlosses\n{:>8} {:>22} {:>10} {:>13} {:>15} {:>34}\n", "copies", "a node fails every, d", "failures",
                  "chunks lost", "programs lost", "a year, of a million chunks");
  for (const SimFigures::Loss& loss : figures.losses) {
    text +=
        fmt::format("{:>8} {:>22} {:>10} {:>13} {:>15} {:>34.3g}\n", loss.copies, loss.node_days, loss.result.failures,
                    loss.result.chunks_lost, loss.result.programs_lost, lost_in_a_million_years(loss.result));
  }
  return text;
}

std::string churn_text(const SimFigures& figures) {
  if (figures.churn.empty()) return "";
  const ChurnStudy& study = figures.churn.front().study;
  std::string text =
      fmt::format("\n{:g} hours of one node of {} MiB with {} programs; an extent of 2^7 frames can be had\n",
                  study.hours, study.slabs * 2, study.clients);
  text += fmt::format("{:>14} {:>12} {:>10} {:>13} {:>24} {:>18} {:>32}\n", "programs by", "compaction", "mean use",
                      "of the time", "... less than 90 % full", "requests refused", "moved an hour, of what is used");
  for (const SimFigures::Churn& each : figures.churn) {
    const ChurnResult& result = each.result;
    text += fmt::format("{:>14} {:>12} {:>9.1f}% {:>12.1f}% {:>23.1f}% {:>17.1f}% {:>31.0f}%\n",
                        each.study.shm ? "shared memory" : "tcp", each.study.compaction ? "yes" : "no",
                        100 * result.mean_use, 100 * result.served, 100 * result.served_below_90, 100 * result.refused,
                        100 * result.moved_per_hour);
  }
  return text;
}

json to_json(const SimFigures::Churn& churn) {
  return {{"shm", churn.study.shm},
          {"compaction", churn.study.compaction},
          {"hours", churn.study.hours},
          {"mean_use", churn.result.mean_use},
          {"served", churn.result.served},
          {"served_below_90", churn.result.served_below_90},
          {"refused_below_90", churn.result.refused},
          {"moved_per_hour", churn.result.moved_per_hour},
          {"extents", churn.result.extents}};
}

json to_json(const ClusterStudy& study, const ClusterResult& result) {
  json samples = json::array();
  for (const auto& sample : result.samples) samples.push_back({sample.hours, sample.mean_use, sample.most_use});
  return {{"copies", study.copies},
          {"days", study.days},
          {"node_days", study.node_days},
          {"balance", result.balance},
          {"worst_balance", result.worst_balance},
          {"chunks_asked", result.asked},
          {"chunks_refused", result.refused},
          {"use_when_refused", result.use_when_refused},
          {"failures", result.failures},
          {"copies_lost", result.copies_lost},
          {"copies_made", result.copies_made},
          {"repair_seconds_p50", quantile(result.repair_seconds, 0.5)},
          {"repair_seconds_p95", quantile(result.repair_seconds, 0.95)},
          {"repair_seconds_most", quantile(result.repair_seconds, 1)},
          {"chunks_lost", result.chunks_lost},
          {"programs_lost", result.programs_lost},
          {"chunk_days", result.chunk_days},
          {"use", samples}};
}

plot::Chart draw_refill(const SimFigures& figures) {
  plot::Chart chart{.title = "Programs that stand still for want of frames",
                    .x = {.label = "T, frames", .kind = plot::Scale::Kind::log},
                    .y = {.label = "of the time in bursts, %"}};
  plot::Series fixed{.name = "T as given"};
  plot::Series measured{.name = "T by equation (1)"};
  for (const RefillResult& each : figures.refill) {
    (each.threshold > 0 ? fixed : measured).points.push_back({each.mean_threshold, 100 * each.stood_still});
  }
  // A level, to compare with.
  if (!measured.points.empty() && !fixed.points.empty()) {
    const double level = measured.points.front().y;
    measured.points = {{fixed.points.front().x, level}, {fixed.points.back().x, level}};
  }
  chart.series = {std::move(fixed), std::move(measured)};
  return chart;
}

plot::Chart draw_balance(const SimFigures& figures) {
  plot::Chart chart{.title = "Use of the nodes", .x = {.label = "hours"}, .y = {.label = "%", .least = 0, .most = 100}};
  plot::Series mean{.name = "mean"};
  plot::Series most{.name = "fullest node"};
  for (const auto& sample : figures.cluster.samples) {
    mean.points.push_back({sample.hours, 100 * sample.mean_use});
    most.points.push_back({sample.hours, 100 * sample.most_use});
  }
  chart.series = {std::move(most), std::move(mean)};
  return chart;
}

plot::Chart draw_losses(const SimFigures& figures) {
  plot::Chart chart{.title = "Chunks lost, of a million in a year",
                    .note = "0.1: none in this run",
                    .x = {.label = "days between two failures of a node", .kind = plot::Scale::Kind::log},
                    .y = {.label = "chunks", .kind = plot::Scale::Kind::log}};
  for (std::uint32_t copies = 1; copies <= ClusterStudy::kMostCopies; ++copies) {
    plot::Series series{.name = fmt::format("{} cop{}", copies, copies == 1 ? "y" : "ies")};
    for (const SimFigures::Loss& loss : figures.losses) {
      if (loss.copies != copies) continue;
      series.points.push_back({loss.node_days, std::max(0.1, lost_in_a_million_years(loss.result))});
    }
    if (!series.points.empty()) chart.series.push_back(std::move(series));
  }
  return chart;
}

}  // namespace

std::string to_text(const SimFigures& figures) {
  return refill_text(figures) + cluster_text(figures) + losses_text(figures) + churn_text(figures);
}

std::string to_json(const SimFigures& figures) {
  json refill = json::array();
  for (const RefillResult& each : figures.refill) {
    refill.push_back({{"threshold", each.threshold > 0 ? json(each.threshold) : json("equation 1")},
                      {"mean_threshold", each.mean_threshold},
                      {"stood_still", each.stood_still},
                      {"worst_client", each.worst_client},
                      {"mean_at_hand", each.mean_at_hand},
                      {"round_trip_us", each.round_trip_us},
                      {"expected_us", each.expected_us},
                      {"requests", each.requests},
                      {"frames", each.frames}});
  }
  json losses = json::array();
  for (const SimFigures::Loss& loss : figures.losses) {
    ClusterStudy study = figures.cluster_study;
    study.copies = loss.copies;
    study.node_days = loss.node_days;
    losses.push_back(to_json(study, loss.result));
  }
  json churn = json::array();
  for (const SimFigures::Churn& each : figures.churn) churn.push_back(to_json(each));
  const json all{{"nodes", figures.cluster_study.nodes},
                 {"clients", figures.cluster_study.clients},
                 {"seed", figures.cluster_study.seed},
                 {"refill", refill},
                 {"cluster", to_json(figures.cluster_study, figures.cluster)},
                 {"losses", losses},
                 {"churn", churn}};
  return all.dump(2) + "\n";
}

std::vector<plot::Drawing> draw(const SimFigures& figures) {
  std::vector<plot::Drawing> drawings;
  drawings.push_back({"sim-refill", draw_refill(figures)});
  drawings.push_back({"sim-balance", draw_balance(figures)});
  if (!figures.losses.empty()) drawings.push_back({"sim-losses", draw_losses(figures)});
  return drawings;
}

}  // namespace comex::sim
