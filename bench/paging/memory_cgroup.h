// A control group that limits how much memory a program has: what the kernel takes beyond that it must swap.
// Not thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "base/expected.h"
#include "base/fd.h"

namespace comex::bench {

// Where the memory controller is, and which of the two interfaces it has.
struct CgroupRoot {
  std::string path;  // the hierarchy's own folder: groups are made in it
  int version = 2;
};

// Errc::unsupported, with a word, where there is none. `mount` is for tests.
Expected<CgroupRoot> find_memory_cgroup(const std::string& mount = "/sys/fs/cgroup");

// Lives as long as this object. There is one at a time, under a name that tells a later run whose it was.
class MemoryCgroup {
 public:
  static Expected<MemoryCgroup> create(const CgroupRoot& root, std::uint64_t limit);
  // Of a run that was killed. REQUIRES: no other run is under way.
  static Expected<void> remove_leftover(const CgroupRoot& root);

  MemoryCgroup(MemoryCgroup&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  MemoryCgroup& operator=(MemoryCgroup&&) = delete;
  ~MemoryCgroup();

  // For Child::spawn.
  [[nodiscard]] Expected<Fd> open_processes() const;
  // To be called every few milliseconds while a program runs in it. The kernel looks at counts of the group's pages
  // that are up to four seconds old when it decides what to take away; a program that changes its ways within that time
  // is killed, though there is swap for it. Whoever reads the counts brings them up to date.
  void look_after() const;

 private:
  explicit MemoryCgroup(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

}  // namespace comex::bench
