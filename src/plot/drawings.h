// Charts, and their files. Thread-safe: functions without state.
#pragma once

#include <string>
#include <vector>

#include "base/expected.h"
#include "plot/chart.h"

namespace comex::plot {

struct Drawing {
  std::string name;  // of the file, without its ending
  Chart chart;
};

// Writes each as SVG into the folder, which is made if it is not there. Files of the same names are replaced.
Expected<void> write_drawings(const std::vector<Drawing>& drawings, const std::string& folder);

}  // namespace comex::plot
