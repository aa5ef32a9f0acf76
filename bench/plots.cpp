#include "bench/plots.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>

namespace comex::bench {

Expected<void> write_plots(const std::vector<Plot>& plots, const std::string& folder) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  for (const Plot& each : plots) {
    const std::string path = fmt::format("{}/{}.svg", folder, each.name);
    std::ofstream file(path, std::ios::trunc);
    file << plot::to_svg(each.chart);
    file.close();
    if (!file) return Error{Errc::io, fmt::format("--plot: cannot write {}", path)};
  }
  return {};
}

}  // namespace comex::bench
