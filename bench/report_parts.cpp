#include "bench/report_parts.h"

#include <fmt/format.h>
#include <sys/utsname.h>

#include <algorithm>
#include <thread>

namespace comex::bench {

namespace {

constexpr double kBusy = 0.10;  // more load than this shows in the figures

std::string_view result_word(const Goal& goal) {
  return !goal.met ? "unknown" : *goal.met ? "met" : "missed";
}

}  // namespace

std::string number(double value) {
  return fmt::format("{:.{}f}", value, value < 10 ? 2 : value < 100 ? 1 : 0);
}

std::string note_lines(const std::vector<Skipped>& skipped, double load_before) {
  std::string text;
  for (const Skipped& system : skipped) text += fmt::format("{} skipped: {}\n", system.what, system.why);
  if (load_before > kBusy) {
    text += fmt::format("The machine was {:.0f} % busy before the run began: do not rely on these figures.\n",
                        load_before * 100);
  }
  return text;
}

std::string goal_lines(const std::vector<Goal>& goals, bool colour) {
  std::string text = "goals\n";
  std::size_t widest = 36;
  for (const Goal& goal : goals) widest = std::max(widest, goal.name.size());
  for (const Goal& goal : goals) {
    const std::string_view paint = !goal.met ? "\x1b[33m" : *goal.met ? "\x1b[32m" : "\x1b[31m";
    const std::string padded = fmt::format("{:<8}", result_word(goal));
    text += fmt::format("  {}{:<{}}{:<32}{}\n", colour ? fmt::format("{}{}\x1b[0m", paint, padded) : padded, goal.name,
                        widest + 2, goal.wanted, goal.figure);
  }
  return text;
}

nlohmann::ordered_json host_json() {
  utsname host{};
  ::uname(&host);
  return {{"kernel", host.release}, {"cores", std::thread::hardware_concurrency()}};
}

nlohmann::ordered_json skipped_json(const std::vector<Skipped>& skipped) {
  auto list = nlohmann::ordered_json::array();
  for (const Skipped& system : skipped) list.push_back({{"system", system.what}, {"why", system.why}});
  return list;
}

nlohmann::ordered_json goals_json(const std::vector<Goal>& goals) {
  auto list = nlohmann::ordered_json::array();
  for (const Goal& goal : goals) {
    list.push_back({{"name", goal.name},
                    {"wanted", goal.wanted},
                    {"figure", goal.figure},
                    {"value", goal.value},
                    {"limit", goal.limit},
                    {"result", result_word(goal)}});
  }
  return list;
}

}  // namespace comex::bench
