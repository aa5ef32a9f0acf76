// The figures of `comex bench prefetch`, for people (tables) and for programs (JSON), and whether they keep what
// docs/benchmarks.md promises. Thread-safe: functions without state.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "bench/goals.h"
#include "bench/prefetch/prefetch_figures.h"

namespace comex::bench {

std::vector<Goal> judge(const PrefetchFigures& figures);

// With `colour`, "met" and "missed" stand out on a terminal.
std::string to_text(const PrefetchFigures& figures, const std::vector<Goal>& goals, bool colour);

nlohmann::ordered_json to_json(const PrefetchFigures& figures, const std::vector<Goal>& goals);

}  // namespace comex::bench
