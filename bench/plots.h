// Drawings of figures, and their files. Thread-safe: functions without state.
#pragma once

#include <string>
#include <vector>

#include "base/expected.h"
#include "plot/chart.h"

namespace comex::bench {

struct Plot {
  std::string name;  // of the file, without its ending
  plot::Chart chart;
};

// Writes each as SVG into the folder, which is made if it is not there. Files of the same names are replaced.
Expected<void> write_plots(const std::vector<Plot>& plots, const std::string& folder);

}  // namespace comex::bench
