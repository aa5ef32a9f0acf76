#include "bench/paging/memory_cgroup.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>

#include <sstream>
#include <thread>

#include "base/clock.h"
#include "bench/paging/kernel_file.h"

namespace comex::bench {

namespace {

constexpr const char* kName = "comex-bench-paging";
constexpr Millis kEmptyWithin{3000};  // a program that has ended leaves its group a moment later
constexpr const char* kUsualSwappiness = "60";

bool exists(const std::string& path) {
  return ::access(path.c_str(), F_OK) == 0;
}

bool has_word(const std::string& path, const std::string& wanted) {
  const Expected<std::string> text = read_kernel_file(path);
  if (!text) return false;
  std::istringstream words(*text);
  for (std::string word; words >> word;) {
    if (word == wanted) return true;
  }
  return false;
}

// Whatever a program left behind in it.
void end_members(const std::string& path) {
  const Expected<std::string> members = read_kernel_file(path + "/cgroup.procs");
  std::istringstream numbers(members ? *members : std::string());
  for (pid_t pid = 0; numbers >> pid;) ::kill(pid, SIGKILL);
}

Expected<void> remove_group(const std::string& path) {
  const Deadline deadline(kEmptyWithin);
  while (::rmdir(path.c_str()) != 0) {
    if (errno == ENOENT) return {};
    if (errno != EBUSY || deadline.passed()) return system_error("cannot remove the control group " + path);
    end_members(path);
    std::this_thread::sleep_for(Millis(5));
  }
  return {};
}

Expected<void> set_limit(const CgroupRoot& root, const std::string& group, std::uint64_t limit) {
  if (root.version == 1) {
    // A parent with swappiness 0 would have the kernel kill rather than swap.
    Expected<void> swaps = write_kernel_file(group + "/memory.swappiness", kUsualSwappiness);
    if (!swaps) return swaps;
    return write_kernel_file(group + "/memory.limit_in_bytes", std::to_string(limit));
  }
  Expected<void> swaps = write_kernel_file(group + "/memory.swap.max", "max");
  if (!swaps) return swaps;
  return write_kernel_file(group + "/memory.max", std::to_string(limit));
}

}  // namespace

Expected<CgroupRoot> find_memory_cgroup(const std::string& mount) {
  if (exists(mount + "/memory/memory.limit_in_bytes")) return CgroupRoot{mount + "/memory", 1};
  for (const std::string& path : {mount, mount + "/unified"}) {
    if (has_word(path + "/cgroup.controllers", "memory")) return CgroupRoot{path, 2};
  }
  return Error{Errc::unsupported, fmt::format("no memory control groups in {}", mount)};
}

Expected<MemoryCgroup> MemoryCgroup::create(const CgroupRoot& root, std::uint64_t limit) {
  if (root.version == 2 && !has_word(root.path + "/cgroup.subtree_control", "memory")) {
    Expected<void> enabled = write_kernel_file(root.path + "/cgroup.subtree_control", "+memory");
    if (!enabled) return enabled.error();
  }
  const std::string path = fmt::format("{}/{}", root.path, kName);
  if (::mkdir(path.c_str(), 0755) != 0) return system_error("cannot make the control group " + path);
  MemoryCgroup group(path);
  Expected<void> limited = set_limit(root, path, limit);
  if (!limited) return limited.error();
  return group;
}

Expected<void> MemoryCgroup::remove_leftover(const CgroupRoot& root) {
  return remove_group(fmt::format("{}/{}", root.path, kName));
}

MemoryCgroup::~MemoryCgroup() {
  if (!path_.empty()) static_cast<void>(remove_group(path_));  // one that stays is removed by the next run
}

Expected<Fd> MemoryCgroup::open_processes() const {
  const std::string path = path_ + "/cgroup.procs";
  Fd file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!file) return system_error("cannot open " + path);
  return file;
}

void MemoryCgroup::look_after() const {
  static_cast<void>(read_kernel_file(path_ + "/memory.stat"));
}

}  // namespace comex::bench
