#include "bench/running/workload.h"

#include <fmt/format.h>

#include <fstream>

#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "bench/child.h"
#include "bench/own_nodes.h"
#include "bench/paging/program.h"
#include "bench/running/asked_program.h"
#include "bench/running/redis_load.h"
#include "bench/samples.h"
#include "cli/command_line.h"

namespace comex::bench {

namespace {

using Command = std::vector<std::string>;

constexpr std::uint64_t kPoolBytes = 64 << 20;

constexpr const char* kSortStrings = R"(
import sys, time
for line in sys.stdin:
    begin = time.perf_counter()
    strings = {s: 1 for s in sorted(str(i) for i in range(40000))}
    print(time.perf_counter() - begin, flush=True)
)";

// Seconds that the command takes.
Expected<double> time_program(const Command& command, const std::string& folder) {
  const auto begin = Clock::now();
  const Expected<std::string> output = run_program(command, {.log = folder + "/run.log"});
  if (!output) return output.error();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

class Program : public Workload {
 public:
  Program(std::string_view name, Command command, unsigned turns, const std::string& folder)
      : name_(name), command_(std::move(command)), turns_(turns), folder_(folder) {}
  [[nodiscard]] std::string_view name() const override { return name_; }
  [[nodiscard]] std::string_view unit() const override { return "s"; }
  [[nodiscard]] unsigned turns() const override { return turns_; }
  Expected<double> measure(Mode mode) override { return time_program(in_mode(mode, command_), folder_); }

 private:
  std::string_view name_;
  Command command_;
  unsigned turns_;
  const std::string& folder_;
};

class StartAlone : public Workload {
 public:
  StartAlone(std::string_view name, Command flags, const std::string& folder)
      : name_(name), flags_(std::move(flags)), folder_(folder) {}
  [[nodiscard]] std::string_view name() const override { return name_; }
  [[nodiscard]] std::string_view unit() const override { return "ms"; }
  [[nodiscard]] unsigned turns() const override { return 3; }
  // Several in a row: the first meets what is still being taken down of the mode before.
  Expected<double> measure(Mode mode) override {
    std::vector<double> took;
    for (int i = 0; i < kTimes; ++i) {
      const Expected<double> seconds = time_program(in_mode(mode, {"true"}, flags_), folder_);
      if (!seconds) return seconds.error();
      took.push_back(*seconds * 1e3);
    }
    return median(std::move(took));
  }

 private:
  static constexpr int kTimes = 15;
  std::string_view name_;
  Command flags_;
  const std::string& folder_;
};

class StartInPool : public StartAlone {
 public:
  StartInPool(OwnNodes nodes, const std::string& folder)
      : StartAlone(kStartInPool, flags_of(nodes, folder), folder), nodes_(std::move(nodes)) {}

 private:
  static Command flags_of(const OwnNodes& nodes, const std::string& folder) {
    return {"--pool", nodes.nodes().front().tcp.text(), "--secret-file", OwnNodes::secret_file(folder)};
  }
  OwnNodes nodes_;
};

class StartEach : public Workload {
 public:
  explicit StartEach(const std::string& folder) : folder_(folder) {}
  [[nodiscard]] std::string_view name() const override { return kStartEach; }
  [[nodiscard]] std::string_view unit() const override { return "ms"; }
  Expected<double> measure(Mode mode) override {
    const auto take = [&](int processes) {
      const std::string loop = fmt::format("i=0; while [ $i -lt {} ]; do /bin/true; i=$((i+1)); done", processes);
      return time_program(in_mode(mode, {"sh", "-c", loop}), folder_);
    };
    const Expected<double> few = take(kFew);
    if (!few) return few.error();
    const Expected<double> many = take(kMany);
    if (!many) return many.error();
    return (*many - *few) * 1e3 / (kMany - kFew);
  }

 private:
  static constexpr int kFew = 20;
  static constexpr int kMany = 320;
  const std::string& folder_;
};

class FirstTouch : public Workload {
 public:
  explicit FirstTouch(const std::string& folder) : folder_(folder) {}
  [[nodiscard]] std::string_view name() const override { return kFirstTouch; }
  [[nodiscard]] std::string_view unit() const override { return "us"; }
  Expected<double> measure(Mode mode) override {
    const Command load{beside_this_program("comex-paging-load"), "--set", "512M", "--pass", "sequential"};
    const Expected<std::string> output = run_program(in_mode(mode, load), {.log = folder_ + "/run.log"});
    if (!output) return output.error();
    const auto line = nlohmann::json::parse(*output, nullptr, false);
    if (!line.is_object() || !line.contains("fill_us")) return Error{Errc::io, "the load printed '" + *output + "'"};
    return line["fill_us"].get<double>();
  }

 private:
  const std::string& folder_;
};

// A library of a few sources, each of which keeps a compiler busy for about a second.
void write_project(const std::string& folder) {
  constexpr int kSources = 8;
  std::string objects;
  for (int i = 0; i < kSources; ++i) {
    std::ofstream(fmt::format("{}/part{}.cpp", folder, i)) << fmt::format(
        "#include <algorithm>\n#include <map>\n#include <sstream>\n#include <string>\n#include <vector>\n"
        "int part{}() {{\n  std::map<std::string, std::vector<int>> all;\n  all[\"a\"].push_back({});\n"
        "  return int(all.size());\n}}\n",
        i, i);
    objects += fmt::format(" part{}.o", i);
  }
  std::ofstream(folder + "/Makefile") << "parts.a:" << objects << "\n\tar rcs $@ $^\n"
                                      << "%.o: %.cpp\n\tg++ -O1 -c -o $@ $<\n";
}

std::unique_ptr<Workload> make_make(const std::string& folder, std::vector<Skipped>& skipped) {
  for (const char* const tool : {"make", "g++", "ar"}) {
    if (program_exists(tool)) continue;
    skipped.push_back({std::string(kMake), fmt::format("{} is not installed (apt install build-essential)", tool)});
    return nullptr;
  }
  write_project(folder);
  // Short, and several of each: within seconds the pace of a machine changes by more than what is looked for.
  constexpr unsigned kTurns = 5;
  return std::make_unique<Program>(kMake, Command{"make", "-s", "-B", "-j2", "-C", folder}, kTurns, folder);
}

}  // namespace

Command in_mode(Mode mode, Command command, const Command& flags) {
  if (mode == Mode::native) return command;
  Command line{beside_this_program("comex"), "run", "--local", "2G"};
  if (mode == Mode::armed) line.emplace_back("--at-once");
  line.insert(line.end(), flags.begin(), flags.end());
  line.emplace_back("--");
  line.insert(line.end(), command.begin(), command.end());
  return line;
}

std::vector<std::unique_ptr<Workload>> make_workloads(const std::string& folder, std::vector<Skipped>& skipped) {
  std::vector<std::unique_ptr<Workload>> all;
  all.push_back(std::make_unique<StartAlone>(kStartAlone, Command{}, folder));
  if (auto nodes = OwnNodes::start(folder, 1, kPoolBytes)) {
    all.push_back(std::make_unique<StartInPool>(*std::move(nodes), folder));
  } else {
    skipped.push_back({std::string(kStartInPool), nodes.error().message});
  }
  all.push_back(std::make_unique<StartEach>(folder));
  all.push_back(std::make_unique<FirstTouch>(folder));
  Command walk{beside_this_program("comex-paging-load"), "--set", "256M", "--asked", "1"};
  for (unsigned i = 0; i < AskedProgram::kTimes; ++i)
    walk.insert(walk.end(), {"--pass", i % 2 == 0 ? "sequential" : "random"});
  all.push_back(std::make_unique<AskedProgram>(kComputes, std::move(walk), folder));
  if (program_exists("python3")) {
    all.push_back(std::make_unique<AskedProgram>(kPython, Command{"python3", "-c", kSortStrings}, folder));
  } else {
    skipped.push_back({std::string(kPython), "python3 is not installed"});
  }
  if (auto make = make_make(folder, skipped)) all.push_back(std::move(make));
  if (auto servers = RedisServers::start(folder)) {
    const auto shared = std::make_shared<RedisServers>(*std::move(servers));
    all.push_back(std::make_unique<RedisLoad>(kRedisSet, "set", shared));
    all.push_back(std::make_unique<RedisLoad>(kRedisGet, "get", shared));
  } else {
    skipped.push_back({"redis", servers.error().message});
  }
  return all;
}

}  // namespace comex::bench
