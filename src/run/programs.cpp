#include "run/programs.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <optional>

#include "base/fd.h"
#include "run/keeper/keeper_options.h"
#include "run/room.h"

namespace comex {
namespace {

constexpr std::array<std::string_view, 2> kKeepers{"comex-keeper", "comex-watcher"};

bool is_keeper(const std::filesystem::path& process) {
  std::string name;
  return std::getline(std::ifstream(process / "comm"), name) &&
         std::find(kKeepers.begin(), kKeepers.end(), name) != kKeepers.end();
}

ProgramReport report_of(const RunProgress& progress) {
  const auto get = [](const auto& word) { return word.load(std::memory_order_relaxed); };
  ProgramReport report;
  report.name.assign(progress.name.data(), strnlen(progress.name.data(), progress.name.size()));
  report.pid = get(progress.program);
  report.copies = get(progress.copies);
  report.code = Code{get(progress.data), get(progress.parity)};
  report.processes = get(progress.processes);
  report.nodes_away = get(progress.nodes_away);
  report.stuck = get(progress.stuck);
  report.pages = get(progress.pages);
  report.held = get(progress.held);
  report.free = get(progress.free);
  report.dead = get(progress.dead);
  report.on_disk = get(progress.on_disk);
  report.behind = get(progress.behind);
  report.copied = get(progress.copied);
  report.to_copy = get(progress.to_copy);
  report.moved = get(progress.moved);
  report.to_move = get(progress.to_move);
  report.straight = get(progress.straight);
  report.rate = get(progress.rate);
  return report;
}

// Nothing if it is not ours to look at, or of another version.
std::optional<ProgramReport> ask_keeper(const std::filesystem::path& process) {
  const Fd room(::open((process / fmt::format("fd/{}", number_of(KeeperFile::room))).c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status {};
  if (!room || ::fstat(room.get(), &status) != 0 || status.st_size < static_cast<off_t>(sizeof(Room))) {
    return std::nullopt;
  }
  void* const memory = ::mmap(nullptr, sizeof(RunProgress), PROT_READ, MAP_SHARED, room.get(), 0);
  if (memory == MAP_FAILED) return std::nullopt;
  const auto& progress = *static_cast<const RunProgress*>(memory);
  std::optional<ProgramReport> report;
  if (progress.magic.load(std::memory_order_acquire) == RunProgress::kMagic) report = report_of(progress);
  ::munmap(memory, sizeof(RunProgress));
  return report;
}

}  // namespace

std::vector<ProgramReport> programs_here() {
  std::vector<ProgramReport> reports;
  std::error_code error;
  for (const auto& process : std::filesystem::directory_iterator("/proc", error)) {
    const std::string number = process.path().filename();
    if (number.find_first_not_of("0123456789") != std::string::npos) continue;
    if (!is_keeper(process.path())) continue;
    if (auto report = ask_keeper(process.path())) reports.push_back(*std::move(report));
  }
  return reports;
}

}  // namespace comex
