#include "trace/report.h"

#include <fmt/format.h>

#include <algorithm>

#include <nlohmann/json.hpp>

#include "base/units.h"

namespace comex {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostListed = 10;  // for people, of each kind

double share(std::uint64_t part, std::uint64_t all) {
  return all == 0 ? 0 : static_cast<double>(part) / static_cast<double>(all);
}

template <typename F>
void for_each_origin(F&& f) {
  for (unsigned value = 1; value < kOrigins; ++value) f(static_cast<Origin>(value));
}

std::uint64_t count_of(const TraceFigures& figures, Origin origin) {
  return figures.by_origin[static_cast<std::size_t>(origin)];
}

// --- for programs ---

Json json_of(const TraceFigures& figures) {
  Json faults;
  for_each_origin([&](Origin origin) { faults[key_of(origin)] = count_of(figures, origin); });
  return Json{{"faults", figures.faults()},
              {"by_origin", faults},
              {"writes", figures.writes},
              {"pages_along", figures.along},
              {"pages_into_read_buffer", figures.around},
              {"steps", Json{{"sequential", figures.steps.sequential},
                             {"strided", figures.steps.strided},
                             {"other", figures.steps.other}}}};
}

Json json_of(const TraceProcessSummary& process) {
  Json json{{"pid", process.process.pid},
            {"name", process.process.name},
            {"since_seconds", in_seconds(process.process.time)},
            {"dropped", process.dropped}};
  json.update(json_of(process.figures()));
  json["threads"] = Json::array();
  for (const auto& [id, figures] : process.threads) {
    Json thread{{"id", id}};
    thread.update(json_of(figures));
    json["threads"].push_back(std::move(thread));
  }
  return json;
}

// --- for people ---

std::string origins_of(const TraceFigures& figures) {
  std::string text;
  for_each_origin([&](Origin origin) {
    const std::uint64_t count = count_of(figures, origin);
    if (count == 0) return;
    text += fmt::format("{}{} {} ({:.0f} %)", text.empty() ? "" : ", ", name_of(origin), count,
                        100 * share(count, figures.faults()));
  });
  return text.empty() ? "none" : text;
}

std::string steps_of(const TraceSteps& steps) {
  return fmt::format("{:.0f} % sequential, {:.0f} % strided", 100 * share(steps.sequential, steps.all()),
                     100 * share(steps.strided, steps.all()));
}

std::string plural(std::uint64_t count, const char* one, const char* many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
}

// Letters that a terminal would act on are not for it.
std::string printable(std::string text) {
  for (char& letter : text) {
    if (static_cast<unsigned char>(letter) < ' ' || letter == 127) letter = '?';
  }
  return text;
}

}  // namespace

std::string to_json(const TraceSummary& summary) {
  Json json{{"command", summary.header.command},     {"start_unix_seconds", in_seconds(summary.header.start)},
            {"page_size", summary.header.page_size}, {"local_limit_bytes", summary.header.local},
            {"seconds", in_seconds(summary.end)},    {"complete", !summary.cut},
            {"dropped", summary.dropped()}};
  json.update(json_of(summary.figures()));
  json["processes"] = Json::array();
  for (const TraceProcessSummary& process : summary.processes) json["processes"].push_back(json_of(process));
  json["regions"] = Json::array();
  for (const TraceRegion& region : summary.regions) {
    json["regions"].push_back(Json{{"pid", summary.processes[region.process].process.pid},
                                   {"address", region.first * summary.header.page_size},
                                   {"bytes", (region.last - region.first + 1) * summary.header.page_size},
                                   {"pages", region.pages},
                                   {"faults", region.faults}});
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string to_text(const TraceSummary& summary) {
  const TraceFigures all = summary.figures();
  std::string text = printable(fmt::format("{}: {} in {:.2f} s, {}, {} local", summary.header.command,
                                           plural(all.faults(), "fault", "faults"), in_seconds(summary.end),
                                           plural(summary.processes.size(), "process", "processes"),
                                           format_size(summary.header.local)));
  text += '\n';
  const auto line = [&](std::string_view what, const std::string& how) {
    text += fmt::format("  {:<14} {}\n", what, printable(how));
  };
  if (summary.cut) line("cut off", "the file ends in the middle; this is what came before");
  line("served from", origins_of(all));
  line("with them", fmt::format("{} pages into memory, {} into the read buffer", all.along, all.around));
  line("writes", fmt::format("{} ({:.0f} %)", all.writes, 100 * share(all.writes, all.faults())));
  line("steps", steps_of(all.steps));
  if (summary.dropped() > 0)
    line("dropped", plural(summary.dropped(), "fault", "faults") + " more are not in the trace");
  for (std::size_t i = 0; i < std::min(summary.processes.size(), kMostListed); ++i) {
    const TraceProcessSummary& process = summary.processes[i];
    const TraceFigures figures = process.figures();
    line("process", fmt::format("{} {}: {}; {}", process.process.pid, process.process.name,
                                plural(figures.faults(), "fault", "faults"), steps_of(figures.steps)));
    if (process.threads.size() < 2) continue;
    std::vector<std::pair<std::uint32_t, const TraceFigures*>> threads;
    for (const auto& [id, each] : process.threads) threads.emplace_back(id, &each);
    std::stable_sort(threads.begin(), threads.end(),
                     [](const auto& a, const auto& b) { return a.second->faults() > b.second->faults(); });
    for (std::size_t j = 0; j < std::min(threads.size(), kMostListed); ++j) {
      line("  thread",
           fmt::format("{}: {}; {}", threads[j].first, plural(threads[j].second->faults(), "fault", "faults"),
                       steps_of(threads[j].second->steps)));
    }
    if (threads.size() > kMostListed) line("  thread", fmt::format("and {} more", threads.size() - kMostListed));
  }
  if (summary.processes.size() > kMostListed) {
    line("process", fmt::format("and {} more", summary.processes.size() - kMostListed));
  }
  for (std::size_t i = 0; i < std::min(summary.regions.size(), kMostListed); ++i) {
    const TraceRegion& region = summary.regions[i];
    line("region", fmt::format("{:x}, {}, of process {}: {} on {}", region.first * summary.header.page_size,
                               format_size((region.last - region.first + 1) * summary.header.page_size),
                               summary.processes[region.process].process.pid, plural(region.faults, "fault", "faults"),
                               plural(region.pages, "page", "pages")));
  }
  if (summary.regions.size() > kMostListed) {
    line("region", fmt::format("and {} more", summary.regions.size() - kMostListed));
  }
  return text;
}

}  // namespace comex
