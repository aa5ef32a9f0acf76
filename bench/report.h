// The figures of `comex bench pool`, for people (tables) and for programs (JSON).
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "bench/figures.h"
#include "bench/goals.h"

namespace comex::bench {

// Latency, throughput, ratios, goals. With `colour`, "met" and "missed" stand out on a terminal.
std::string to_text(const Figures& figures, const std::vector<Goal>& goals, bool colour);

nlohmann::ordered_json to_json(const Figures& figures, const std::vector<Goal>& goals);

}  // namespace comex::bench
