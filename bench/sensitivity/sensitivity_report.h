// The figures of `comex bench sensitivity`: tables, JSON and drawings. Thread-safe: functions without state.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "bench/sensitivity/sensitivity_figures.h"
#include "plot/drawings.h"

namespace comex::bench {

std::string to_text(const SensitivityFigures& figures);
nlohmann::ordered_json to_json(const SensitivityFigures& figures);
// Only of what was measured.
std::vector<plot::Drawing> draw(const SensitivityFigures& figures);

}  // namespace comex::bench
