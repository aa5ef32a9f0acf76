#include "node/host_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <optional>
#include <string>

#include "base/read_file.h"
#include "base/units.h"
#include "node/arena.h"

namespace comex {

namespace {

constexpr std::uint64_t kLeastReserve = std::uint64_t{512} << 20;

std::optional<std::uint64_t> parse_number(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{}) return std::nullopt;
  return number;
}

// The number after `key` at the start of a line.
std::optional<std::uint64_t> find_field(std::string_view text, std::string_view key) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    if (line.starts_with(key)) return parse_number(line.substr(key.size()));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
  }
  return std::nullopt;
}

// Nothing if the file is not there or says "max".
std::optional<std::uint64_t> read_number(const std::filesystem::path& path) {
  const auto text = read_file(path);
  return text ? parse_number(*text) : std::nullopt;
}

// How the two versions of control groups name the same things.
struct CgroupFiles {
  const char* limit;
  const char* soft_limit;  // above it the kernel throttles and reclaims; null if there is none
  const char* usage;
  const char* cache;  // the line of memory.stat that counts the cheaply reclaimable part of usage
};
constexpr CgroupFiles kCgroup2{"memory.max", "memory.high", "memory.current", "inactive_file "};
constexpr CgroupFiles kCgroup1{"memory.limit_in_bytes", nullptr, "memory.usage_in_bytes", "total_inactive_file "};

void narrow_by_group(HostMemory& host, const std::filesystem::path& group, const CgroupFiles& files) {
  std::optional<std::uint64_t> limit = read_number(group / files.limit);
  if (files.soft_limit != nullptr) {
    if (const auto soft = read_number(group / files.soft_limit)) limit = limit ? std::min(*limit, *soft) : *soft;
  }
  // Version 1 writes "no limit" as a number larger than any memory.
  if (!limit || *limit >= host.total) return;
  std::uint64_t usage = read_number(group / files.usage).value_or(0);
  if (const auto stat = read_file(group / "memory.stat")) {
    usage -= std::min(usage, find_field(*stat, files.cache).value_or(0));
  }
  host.total = *limit;
  host.available = std::min(host.available, *limit - std::min(*limit, usage));
  host.limited = true;
}

// A limit binds all groups inside, so every group from this process's up to the root counts. In a container the path
// may name groups that cannot be seen from inside; then what is mounted at the root is the container's own.
void narrow_by_groups(HostMemory& host, const std::filesystem::path& mount, std::string_view path,
                      const CgroupFiles& files) {
  std::filesystem::path group = mount;
  narrow_by_group(host, group, files);
  for (const auto& part : std::filesystem::path(path).relative_path()) {
    if (part == "..") return;  // outside this cgroup namespace
    group /= part;
    narrow_by_group(host, group, files);
  }
}

bool names_memory(std::string_view controllers) {
  while (!controllers.empty()) {
    const std::string_view name = controllers.substr(0, controllers.find(','));
    if (name == "memory") return true;
    controllers.remove_prefix(std::min(name.size() + 1, controllers.size()));
  }
  return false;
}

}  // namespace

Expected<HostMemory> parse_meminfo(std::string_view text) {
  const auto total = find_field(text, "MemTotal:");
  const auto available = find_field(text, "MemAvailable:");
  if (!total || !available) {
    return Error{Errc::unsupported,
                 "cannot tell how much memory this host has: /proc/meminfo lacks MemTotal or MemAvailable"};
  }
  HostMemory host;
  host.total = *total * kKiB;
  host.available = *available * kKiB;
  if (find_field(text, "Hugepagesize:").value_or(0) * kKiB == kHugePage) {
    const std::uint64_t free = find_field(text, "HugePages_Free:").value_or(0);
    const std::uint64_t promised = find_field(text, "HugePages_Rsvd:").value_or(0);
    host.huge_free = (free - std::min(free, promised)) * kHugePage;
  }
  return host;
}

Expected<HostMemory> read_host_memory(const std::filesystem::path& root) {
  const auto text = read_file(root / "proc/meminfo");
  if (!text) return system_error("cannot read /proc/meminfo");
  auto host = parse_meminfo(*text);
  if (!host) return host;
  // Lines of "id:controllers:path"; version 2 is the one without controllers.
  std::ifstream groups(root / "proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const auto first = line.find(':');
    const auto second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string_view controllers = std::string_view(line).substr(first + 1, second - first - 1);
    const std::string_view path = std::string_view(line).substr(second + 1);
    if (controllers.empty()) {
      narrow_by_groups(*host, root / "sys/fs/cgroup", path, kCgroup2);
    } else if (names_memory(controllers)) {
      narrow_by_groups(*host, root / "sys/fs/cgroup/memory", path, kCgroup1);
    }
  }
  return host;
}

std::uint64_t host_reserve(const HostMemory& host) {
  return std::min(std::max(host.total / 10, kLeastReserve), host.total / 2);
}

std::uint64_t spare_memory(const HostMemory& host) {
  // Huge pages are set aside already: lending them takes nothing from the host.
  return host.available - std::min(host.available, host_reserve(host)) + host.huge_free;
}

Expected<void> check_fits(std::uint64_t bytes, const HostMemory& host) {
  const std::uint64_t spare = spare_memory(host);
  if (bytes <= spare) return {};
  return Error{Errc::invalid,
               fmt::format("cannot lend {}: this {} has {}, of which {} can be spared; lower --memory or use "
                           "--memory auto",
                           format_size(bytes), host.limited ? "control group" : "host", format_size(host.total),
                           format_size(spare))};
}

}  // namespace comex
