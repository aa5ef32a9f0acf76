// What `comex bench evict` prints. Thread-safe: functions without state.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "bench/evict/evict_figures.h"

namespace comex::bench {

std::string to_text(const EvictFigures& figures);
nlohmann::ordered_json to_json(const EvictFigures& figures);

}  // namespace comex::bench
