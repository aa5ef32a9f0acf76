// What `comex bench evict` prints. Thread-safe: functions without state.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "bench/evict/evict_figures.h"
#include "plot/drawings.h"

namespace comex::bench {

std::string to_text(const EvictFigures& figures);
nlohmann::ordered_json to_json(const EvictFigures& figures);
// Misses beside the best possible: a group of bars for each string of references.
std::vector<plot::Drawing> draw(const EvictFigures& figures);

}  // namespace comex::bench
