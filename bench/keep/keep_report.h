// The figures of `comex bench keep` for people and for programs, and what was promised. Thread-safe.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "bench/goals.h"
#include "bench/keep/keep_figures.h"

namespace comex::bench {

std::vector<Goal> judge(const KeepFigures& figures);
std::string to_text(const KeepFigures& figures, const std::vector<Goal>& goals, bool colour);
nlohmann::ordered_json to_json(const KeepFigures& figures, const std::vector<Goal>& goals);

}  // namespace comex::bench
