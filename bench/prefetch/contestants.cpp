#include "bench/prefetch/contestants.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "base/units.h"
#include "bench/paging/comex_run.h"
#include "bench/paging/swap_file.h"
#include "bench/paging/zram.h"

namespace comex::bench {

Running comex_contestant(const PrefetchGround& ground, const Contestant& who, std::uint64_t local,
                         const std::vector<std::string>& flags) {
  const bool shm = who.system == kPagingShm;
  std::vector<std::string> command = shm ? comex_shm_command(ground.nodes.nodes()[0], local)
                                         : comex_tcp_command(ground.nodes.nodes()[1], local, ground.folder);
  std::string stats = ground.folder + "/stats.json";
  command.insert(command.end(), {"--prefetch", who.prefetch, "--stats", stats});
  if (!who.evict.empty()) command.insert(command.end(), {"--evict", who.evict});
  command.insert(command.end(), flags.begin(), flags.end());
  const std::string_view name = shm ? kPagingShm : kPagingTcp;
  return {who, std::make_unique<ComexRun>(name, std::move(command), ground.folder + "/comex-run.log"),
          std::move(stats)};
}

Expected<Running> kernel_contestant(const PrefetchGround& ground, std::string_view system, std::uint64_t local,
                                    std::uint64_t room) {
  if (!ground.host) return ground.host.error();
  Expected<std::unique_ptr<SwapArea>> area =
      system == kPagingZram ? Zram::create(room) : SwapFile::create(ground.swap_folder, room);
  Expected<std::unique_ptr<PagingSystem>> made =
      KernelSwap::create(system, *ground.host, std::move(area), local, ground.folder + "/swap.log");
  if (!made) return made.error();
  return Running{{std::string(system), ""}, *std::move(made), ""};
}

std::uint64_t room_for(std::uint64_t bytes) {
  constexpr std::uint64_t kSlab = 2 << 20;
  return (bytes + bytes / 4) / kSlab * kSlab + 8 * kSlab;
}

std::uint64_t share_of(std::uint64_t bytes, unsigned percent) {
  return std::max(bytes / 100 * percent / kPageSize * kPageSize, kLeastLocal);
}

unsigned percent_of(std::uint64_t part, std::uint64_t bytes) {
  constexpr unsigned kAll = 100;
  return part < bytes ? static_cast<unsigned>((part * kAll + bytes / 2) / bytes) : kAll;
}

Expected<std::optional<RunCounts>> counts_of(const Running& running) {
  if (running.stats.empty()) return std::optional<RunCounts>();
  std::ifstream file(running.stats);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  ::unlink(running.stats.c_str());
  const Expected<RunCounts> counts = parse_run_counts(text);
  if (!counts) return counts.error();
  return std::optional<RunCounts>(*counts);
}

}  // namespace comex::bench
