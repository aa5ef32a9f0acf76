#include "plot/drawings.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>

namespace comex::plot {

Expected<void> write_drawings(const std::vector<Drawing>& drawings, const std::string& folder) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  for (const Drawing& each : drawings) {
    const std::string path = fmt::format("{}/{}.svg", folder, each.name);
    std::ofstream file(path, std::ios::trunc);
    file << to_svg(each.chart);
    file.close();
    if (!file) return Error{Errc::io, fmt::format("--plot: cannot write {}", path)};
  }
  return {};
}

}  // namespace comex::plot
