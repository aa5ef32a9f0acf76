#include "bench/sensitivity/sensitivity_figures.h"

#include <algorithm>
#include <set>

namespace comex::bench {

std::string_view to_string(Sweep sweep) {
  switch (sweep) {
    case Sweep::threshold: return "threshold";
    case Sweep::prefetch: return "prefetch";
    case Sweep::buffer: return "buffer";
    case Sweep::memory: return "memory";
  }
  return "";
}

const SensitivityPoint* SensitivityFigures::find(Sweep sweep, std::string_view program, std::string_view system,
                                                 unsigned value) const {
  const auto found = std::find_if(points.begin(), points.end(), [&](const SensitivityPoint& point) {
    return point.sweep == sweep && point.program == program && point.system == system && point.value == value;
  });
  return found == points.end() ? nullptr : &*found;
}

std::vector<unsigned> SensitivityFigures::values(Sweep sweep) const {
  std::set<unsigned> all;
  for (const SensitivityPoint& point : points) {
    if (point.sweep == sweep) all.insert(point.value);
  }
  return {all.begin(), all.end()};
}

std::optional<SpeedUp> SensitivityFigures::speed_up(std::string_view program, std::string_view system,
                                                    std::string_view over, unsigned percent) const {
  const SensitivityPoint* const ours = find(Sweep::memory, program, system, percent);
  const SensitivityPoint* const theirs = find(Sweep::memory, program, over, percent);
  if (ours == nullptr || theirs == nullptr || ours->seconds <= 0 || ours->at_least) return std::nullopt;
  return SpeedUp{theirs->seconds / ours->seconds, theirs->at_least};
}

}  // namespace comex::bench
