// What the reports of all benches share: numbers, notes, goals. Thread-safe: functions without state.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "bench/figures.h"
#include "bench/goals.h"

namespace comex::bench {

// Three figures that count, whatever the magnitude.
std::string number(double value);

// What was skipped and why, and whether the machine was busy: a line each.
std::string note_lines(const std::vector<Skipped>& skipped, double load_before);

// With `colour`, "met" and "missed" stand out on a terminal.
std::string goal_lines(const std::vector<Goal>& goals, bool colour);

nlohmann::ordered_json host_json();
nlohmann::ordered_json skipped_json(const std::vector<Skipped>& skipped);
nlohmann::ordered_json goals_json(const std::vector<Goal>& goals);

}  // namespace comex::bench
