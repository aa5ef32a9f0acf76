// What `comex bench run` measures with: ordinary programs that fit into their memory, each a class that says what it
// needs and takes one figure. Adding one is a class here and a line in make_workloads.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/expected.h"
#include "bench/running/running_figures.h"

namespace comex::bench {

// The names under which they appear in tables, JSON and goals.
inline constexpr std::string_view kStartAlone = "start of a program";
inline constexpr std::string_view kStartInPool = "start with a pool";
inline constexpr std::string_view kStartEach = "start of each process";
inline constexpr std::string_view kFirstTouch = "first touch of a page";
inline constexpr std::string_view kComputes = "walks over 256 MiB";
inline constexpr std::string_view kPython = "python3 sorts strings";
inline constexpr std::string_view kMake = "make -j2, C++ project";
inline constexpr std::string_view kRedisSet = "redis SET";
inline constexpr std::string_view kRedisGet = "redis GET";

// Not thread-safe.
class Workload {
 public:
  virtual ~Workload() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;
  [[nodiscard]] virtual std::string_view unit() const = 0;
  // How often a round measures each mode, in turns: more where a hundredth matters.
  [[nodiscard]] virtual unsigned turns() const { return 1; }
  virtual Expected<double> measure(Mode mode) = 0;
};

// How to run a command in this mode: what stands before it. `flags`: of comex run.
std::vector<std::string> in_mode(Mode mode, std::vector<std::string> command,
                                 const std::vector<std::string>& flags = {});

// All that can be had on this machine; what cannot is skipped with a word. They work in `folder`, which must outlive
// them.
std::vector<std::unique_ptr<Workload>> make_workloads(const std::string& folder, std::vector<Skipped>& skipped);

}  // namespace comex::bench
