#include "bench/report.h"

#include <fmt/format.h>

#include "bench/report_parts.h"

namespace comex::bench {

namespace {

constexpr double kBytesPerGiB = 1024.0 * 1024.0 * 1024.0;
const std::string kNone = "-";  // not measured

// Which ratios say something: a comex link and what it is to be compared with.
struct Comparison {
  std::string_view above;
  std::string_view below;
};
constexpr Comparison kComparisons[] = {
    {kComexShm, kMemcpy}, {kComexTcp, kBareTcp}, {kComexRdma, kPerftest}, {kRedis, kComexTcp}, {kNbdkit, kComexTcp}};

std::string_view verb(Direction direction) {
  return direction == Direction::read ? "read" : "write";
}

std::string latency_table(const Figures& figures) {
  std::string text = fmt::format("{:<24}", "latency, us");
  for (const Latency& what : kLatencies) {
    text +=
        fmt::format("{:>17}", fmt::format("{} {} page{}", verb(what.direction), what.pages, what.pages > 1 ? "s" : ""));
  }
  text += fmt::format("\n{:<24}", "");
  for ([[maybe_unused]] const Latency& what : kLatencies) text += fmt::format("{:>10}{:>7}", "p50", "p99");
  text += '\n';
  for (const std::string& system : figures.systems) {
    std::string row;
    bool any = false;
    for (const Latency& what : kLatencies) {
      const LatencySeries* series = figures.find(system, what);
      any = any || series != nullptr;
      const Summary middle = series != nullptr ? series->middle() : Summary{};
      row += fmt::format("{:>10}{:>7}", series != nullptr ? number(middle.p50) : kNone,
                         series != nullptr ? number(middle.p99) : kNone);
    }
    if (any) text += fmt::format("  {:<22}{}\n", system, row);
  }
  for (const auto& [above, below] : kComparisons) {
    std::string row;
    bool any = false;
    for (const Latency& what : kLatencies) {
      const auto ratio = figures.ratio(above, below, what);
      any = any || ratio;
      row += ratio ? fmt::format("{:>8} x{:>7}", number(*ratio), "") : fmt::format("{:>10}{:>7}", kNone, "");
    }
    if (any) text += fmt::format("  {:<22}{}\n", fmt::format("{} : {}", above, below), row);
  }
  return text;
}

std::string throughput_table(const Figures& figures) {
  std::string text =
      fmt::format("{:<24}{:^34}{:^34}\n{:<24}", "64-page batches, GiB/s", "read, threads", "write, threads", "");
  constexpr Direction kDirections[] = {Direction::read, Direction::write};
  for ([[maybe_unused]] const Direction direction : kDirections) {
    for (unsigned threads = 1; threads <= kMostThreads; ++threads)
      text += fmt::format("{:>{}}", threads, threads == 1 ? 10 : 8);
  }
  text += '\n';
  const auto row = [&](std::string_view label, const auto& cell) {
    std::string cells;
    bool any = false;
    for (const Direction direction : kDirections) {
      for (unsigned threads = 1; threads <= kMostThreads; ++threads) {
        const std::optional<double> value = cell(direction, threads);
        any = any || value;
        cells += fmt::format("{:>{}}", value ? number(*value) : kNone, threads == 1 ? 10 : 8);
      }
    }
    if (any) text += fmt::format("  {:<22}{}\n", label, cells);
  };
  for (const std::string& system : figures.systems) {
    row(system, [&](Direction direction, unsigned threads) -> std::optional<double> {
      const ThroughputSeries* series = figures.find(system, direction, threads);
      if (series == nullptr) return std::nullopt;
      return median(series->rounds) / kBytesPerGiB;
    });
  }
  for (const auto& [above, below] : kComparisons) {
    // The reading direction of a ratio is "comex as a share of": the higher, the better.
    const bool peer_above = above == kRedis || above == kNbdkit;
    row(fmt::format("{} : {}", peer_above ? below : above, peer_above ? above : below),
        [&, one = above, other = below](Direction direction, unsigned threads) {
          return peer_above ? figures.ratio(other, one, direction, threads)
                            : figures.ratio(one, other, direction, threads);
        });
  }
  return text;
}

nlohmann::ordered_json latency_json(const Figures& figures) {
  auto list = nlohmann::ordered_json::array();
  for (const LatencySeries& series : figures.latency) {
    const Summary middle = series.middle();
    list.push_back({{"system", series.system},
                    {"operation", verb(series.what.direction)},
                    {"pages", series.what.pages},
                    {"p50_us", middle.p50},
                    {"p99_us", middle.p99},
                    {"mean_us", middle.mean},
                    {"samples", middle.count}});
  }
  return list;
}

nlohmann::ordered_json throughput_json(const Figures& figures) {
  auto list = nlohmann::ordered_json::array();
  for (const ThroughputSeries& series : figures.throughput) {
    list.push_back({{"system", series.system},
                    {"operation", verb(series.direction)},
                    {"threads", series.threads},
                    {"batch_pages", kBatchPages},
                    {"bytes_per_second", median(series.rounds)}});
  }
  return list;
}

nlohmann::ordered_json ratios_json(const Figures& figures) {
  auto list = nlohmann::ordered_json::array();
  for (const auto& [above, below] : kComparisons) {
    for (const Latency& what : kLatencies) {
      if (const auto ratio = figures.ratio(above, below, what)) {
        list.push_back({{"of", "latency_p50"},
                        {"system", above},
                        {"to", below},
                        {"operation", verb(what.direction)},
                        {"pages", what.pages},
                        {"ratio", *ratio}});
      }
    }
    for (const Direction direction : {Direction::read, Direction::write}) {
      for (unsigned threads = 1; threads <= kMostThreads; ++threads) {
        if (const auto ratio = figures.ratio(above, below, direction, threads)) {
          list.push_back({{"of", "throughput"},
                          {"system", above},
                          {"to", below},
                          {"operation", verb(direction)},
                          {"threads", threads},
                          {"ratio", *ratio}});
        }
      }
    }
  }
  return list;
}

}  // namespace

std::string to_text(const Figures& figures, const std::vector<Goal>& goals, bool colour) {
  std::string text = fmt::format(
      "comex bench pool: {}.\nPages picked at random from {}; medians of {} rounds in each of which every system had "
      "its "
      "turn.\n\n{}\n{}\n",
      figures.nodes, format_size(figures.set_bytes), figures.rounds, latency_table(figures), throughput_table(figures));
  const std::string notes = note_lines(figures.skipped, figures.load_before);
  if (!notes.empty()) text += notes + '\n';
  return text + goal_lines(goals, colour);
}

nlohmann::ordered_json to_json(const Figures& figures, const std::vector<Goal>& goals) {
  nlohmann::ordered_json json{{"bench", "pool"},
                              {"host", host_json()},
                              {"nodes", figures.nodes},
                              {"load_before", figures.load_before},
                              {"rounds", figures.rounds},
                              {"latency_slice_seconds", figures.latency_slice},
                              {"throughput_slice_seconds", figures.throughput_slice},
                              {"set_bytes", figures.set_bytes},
                              {"latency", latency_json(figures)},
                              {"throughput", throughput_json(figures)},
                              {"ratios", ratios_json(figures)},
                              {"allocation", nullptr},
                              {"skipped", skipped_json(figures.skipped)},
                              {"goals", goals_json(goals)}};
  if (figures.allocation) {
    json["allocation"] = {{"frames_per_second", figures.allocation->single},
                          {"frames_per_second_in_runs", figures.allocation->in_runs}};
  }
  return json;
}

}  // namespace comex::bench
