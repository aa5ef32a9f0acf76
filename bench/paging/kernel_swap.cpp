#include "bench/paging/kernel_swap.h"

#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <sstream>

#include "bench/paging/kernel_file.h"
#include "bench/paging/program.h"
#include "bench/paging/swap_file.h"
#include "bench/paging/zram.h"

namespace comex::bench {

namespace {

// The lock is on the folder of the control groups: it leaves nothing behind, and goes with the process however it ends.
Expected<Fd> lock_folder(const std::string& path) {
  Fd folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder) return system_error("cannot open " + path);
  if (::flock(folder.get(), LOCK_EX | LOCK_NB) == 0) return folder;
  if (errno == EWOULDBLOCK) return Error{Errc::busy, "another comex bench paging is running"};
  return system_error("cannot lock " + path);
}

Expected<void> remove_leftovers(const CgroupRoot& cgroups, const std::string& folder) {
  const Expected<std::vector<std::string>> swaps = active_swaps();
  if (!swaps) return swaps.error();
  if (Expected<void> removed = MemoryCgroup::remove_leftover(cgroups); !removed) return removed;
  if (Expected<void> removed = Zram::remove_leftovers(*swaps); !removed) return removed;
  return SwapFile::remove_leftovers(folder, *swaps);
}

// Pages the kernel has read back from swap since boot.
std::uint64_t pages_swapped_in() {
  const Expected<std::string> text = read_kernel_file("/proc/vmstat");
  std::istringstream words(text ? *text : std::string());
  std::string name;
  for (std::uint64_t value = 0; words >> name >> value;) {
    if (name == "pswpin") return value;
  }
  return 0;
}

}  // namespace

Expected<SwapHost> SwapHost::prepare(const std::string& folder) {
  if (::geteuid() != 0) return Error{Errc::unsupported, "only root may set up swap"};
  Expected<CgroupRoot> cgroups = find_memory_cgroup();
  if (!cgroups) return cgroups.error();
  Expected<Fd> lock = lock_folder(cgroups->path);
  if (!lock) return lock.error();
  if (Expected<void> removed = remove_leftovers(*cgroups, folder); !removed) return removed.error();
  const Expected<std::vector<std::string>> swaps = active_swaps();
  if (!swaps) return swaps.error();
  if (!swaps->empty()) {
    return Error{Errc::unsupported,
                 fmt::format("this machine swaps to {} already: the figures would be of both", swaps->front())};
  }
  return SwapHost(*std::move(cgroups), *std::move(lock));
}

Expected<std::unique_ptr<PagingSystem>> KernelSwap::create(std::string_view name, const SwapHost& host,
                                                           Expected<std::unique_ptr<SwapArea>> area,
                                                           std::uint64_t local, const std::string& log) {
  if (!area) return area.error();
  const Expected<SwapOn> swap = SwapOn::start((*area)->path());
  if (!swap) return swap.error();
  const Expected<MemoryCgroup> group = MemoryCgroup::create(host.cgroups(), local);
  if (!group) return group.error();
  return std::unique_ptr<PagingSystem>(new KernelSwap(name, host, *std::move(area), local, log));
}

Expected<ProgramResult> KernelSwap::run(const std::vector<std::string>& command) {
  const Expected<MemoryCgroup> group = MemoryCgroup::create(host_.cgroups(), local_);
  if (!group) return group.error();
  const Expected<Fd> processes = group->open_processes();
  if (!processes) return processes.error();
  const Expected<SwapOn> swap = SwapOn::start(area_->path());
  if (!swap) return swap.error();
  const std::uint64_t before = pages_swapped_in();
  Expected<ProgramResult> result = measure_program(
      command,
      {.log = log_, .cgroup = processes->get(), .limit = limit_, .look_after = [&group] { group->look_after(); }});
  if (result && pages_swapped_in() == before) {
    return Error{Errc::io, "the kernel did not swap: there is nothing to compare with"};
  }
  return result;
}

}  // namespace comex::bench
