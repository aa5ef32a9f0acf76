// What this host can spare: the sum behind `--memory auto`, and the refusal of what would bring the host down.
//
//   total      |-------------------------------------------------|   RAM, or this process's control group if smaller
//   available  |     in use      |-------------------------------|   without swapping
//   spare      |     in use      |   reserve   |-----------------|   what may be lent
//
// Thread safety: pure functions, but for read_host_memory, which only reads files; call them from any thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "base/expected.h"

namespace comex {

struct HostMemory {
  std::uint64_t total = 0;      // bytes
  std::uint64_t available = 0;  // bytes that could be taken without swapping; free huge pages are not among them
  std::uint64_t huge_free = 0;  // bytes in free 2 MiB pages. Set to 0 if they are not to be used
  bool limited = false;         // total or available come from a control group's limit, not from the host's RAM
  friend bool operator==(const HostMemory&, const HostMemory&) = default;
};

// The text of /proc/meminfo.
Expected<HostMemory> parse_meminfo(std::string_view text);

// /proc/meminfo, narrowed by the memory limits (cgroup v2 and v1) of this process and of every group around it.
// `root` stands for "/", for tests.
Expected<HostMemory> read_host_memory(const std::filesystem::path& root = "/");

// What is left to the host: a tenth, at least 512 MiB, but never more than half.
std::uint64_t host_reserve(const HostMemory& host);

// What can be lent now: for `--memory auto`.
std::uint64_t spare_memory(const HostMemory& host);

// Refuses to lend more than can be spared, with the figures.
Expected<void> check_fits(std::uint64_t bytes, const HostMemory& host);

}  // namespace comex
