// Paging by the kernel: the program runs in a control group that limits its memory, and the kernel swaps to one area,
// which is on for the time of the run only. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/fd.h"
#include "bench/paging/memory_cgroup.h"
#include "bench/paging/swap_area.h"
#include "bench/paging/system.h"

namespace comex::bench {

// The right to use this machine's swap for a measurement, held against a second run at the same time.
class SwapHost {
 public:
  // Removes what a run that was killed has left. Errc::unsupported or busy, with a word, where the machine cannot be
  // measured: not root, no control groups, another run, swap that is on already (figures would be of both).
  // `folder` is where swap files go.
  static Expected<SwapHost> prepare(const std::string& folder);

  [[nodiscard]] const CgroupRoot& cgroups() const { return cgroups_; }

 private:
  SwapHost(CgroupRoot cgroups, Fd lock) : cgroups_(std::move(cgroups)), lock_(std::move(lock)) {}
  CgroupRoot cgroups_;
  Fd lock_;
};

class KernelSwap : public PagingSystem {
 public:
  // Tries once whether the area can be swapped to and the group be made. `host` must outlive it.
  static Expected<std::unique_ptr<PagingSystem>> create(std::string_view name, const SwapHost& host,
                                                        Expected<std::unique_ptr<SwapArea>> area, std::uint64_t local,
                                                        const std::string& log);

  [[nodiscard]] std::string_view name() const override { return name_; }
  Expected<ProgramResult> run(const std::vector<std::string>& command) override;

 private:
  KernelSwap(std::string_view name, const SwapHost& host, std::unique_ptr<SwapArea> area, std::uint64_t local,
             std::string log)
      : name_(name), host_(host), area_(std::move(area)), local_(local), log_(std::move(log)) {}

  std::string_view name_;
  const SwapHost& host_;
  std::unique_ptr<SwapArea> area_;
  std::uint64_t local_;
  std::string log_;
};

}  // namespace comex::bench
