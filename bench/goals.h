// What the pool promises, and whether a run kept it. The promises are those of docs/benchmarks.md.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/figures.h"

namespace comex::bench {

struct Goal {
  std::string name;
  std::string wanted;  // "at most 1.30"
  std::string figure;  // "1.12"; why not, when it was not measured
  double value = 0;
  double limit = 0;
  std::optional<bool> met;  // nothing: a system it needs was not measured
};

std::vector<Goal> judge(const Figures& figures);

}  // namespace comex::bench
