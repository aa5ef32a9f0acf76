// What `comex sim` has found, for people, for programs, and as drawings. Thread-safe: functions without state.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "plot/drawings.h"
#include "sim/churn_study.h"
#include "sim/cluster_study.h"
#include "sim/refill_study.h"

namespace comex::sim {

struct SimFigures {
  RefillStudy refill_study;
  std::vector<RefillResult> refill;
  ClusterStudy cluster_study;
  ClusterResult cluster;
  struct Loss {
    std::uint32_t copies = 0;
    double node_days = 0;
    ClusterResult result;
  };
  std::vector<Loss> losses;
  struct Churn {
    ChurnStudy study;
    ChurnResult result;
  };
  std::vector<Churn> churn;
};

std::string to_text(const SimFigures& figures);
std::string to_json(const SimFigures& figures);

std::vector<plot::Drawing> draw(const SimFigures& figures);

}  // namespace comex::sim
