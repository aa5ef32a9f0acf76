#include "bench/running/workload.h"

#include <fmt/format.h>

#include <fstream>

#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "bench/child.h"
#include "bench/paging/program.h"
#include "bench/running/redis_load.h"
#include "bench/samples.h"
#include "cli/command_line.h"

namespace comex::bench {

namespace {

using Command = std::vector<std::string>;

// Of programs that should take no longer than natively. They take seconds: what a start costs is a figure of its own.
constexpr unsigned kTurns = 3;

// Seconds that the command takes.
Expected<double> time_program(Mode mode, const Command& command, const std::string& folder) {
  const auto begin = Clock::now();
  const Expected<std::string> output = run_program(in_mode(mode, command), {.log = folder + "/run.log"});
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
  Expected<double> measure(Mode mode) override { return time_program(mode, command_, folder_); }

 private:
  std::string_view name_;
  Command command_;
  unsigned turns_;
  const std::string& folder_;
};

class StartAlone : public Workload {
 public:
  explicit StartAlone(const std::string& folder) : folder_(folder) {}
  [[nodiscard]] std::string_view name() const override { return kStartAlone; }
  [[nodiscard]] std::string_view unit() const override { return "ms"; }
  Expected<double> measure(Mode mode) override {
    std::vector<double> took;
    for (int i = 0; i < kTimes; ++i) {
      const Expected<double> seconds = time_program(mode, {"true"}, folder_);
      if (!seconds) return seconds.error();
      took.push_back(*seconds * 1e3);
    }
    return median(std::move(took));
  }

 private:
  static constexpr int kTimes = 15;
  const std::string& folder_;
};

class StartEach : public Workload {
 public:
  explicit StartEach(const std::string& folder) : folder_(folder) {}
  [[nodiscard]] std::string_view name() const override { return kStartEach; }
  [[nodiscard]] std::string_view unit() const override { return "ms"; }
  Expected<double> measure(Mode mode) override {
    const std::string loop = "i=0; while [ $i -lt {} ]; do /bin/true; i=$((i+1)); done";
    const Expected<double> few = time_program(mode, {"sh", "-c", fmt::format(fmt::runtime(loop), kFew)}, folder_);
    if (!few) return few.error();
    const Expected<double> many = time_program(mode, {"sh", "-c", fmt::format(fmt::runtime(loop), kMany)}, folder_);
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
        "#include <algorithm>\n#include <map>\n#include <regex>\n#include <string>\n#include <vector>\n"
        "int part{}() {{\n  std::map<std::string, std::vector<int>> all;\n  all[\"a\"].push_back({});\n"
        "  return int(all.size()) + std::regex_match(\"aab\", std::regex(\"a+b\"));\n}}\n",
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
  return std::make_unique<Program>(kMake, Command{"make", "-s", "-B", "-j2", "-C", folder}, 1, folder);
}

}  // namespace

Command in_mode(Mode mode, Command command) {
  if (mode == Mode::native) return command;
  Command line{beside_this_program("comex"), "run", "--local", "2G"};
  if (mode == Mode::armed) line.emplace_back("--at-once");
  line.emplace_back("--");
  line.insert(line.end(), command.begin(), command.end());
  return line;
}

std::vector<std::unique_ptr<Workload>> make_workloads(const std::string& folder, std::vector<Skipped>& skipped) {
  std::vector<std::unique_ptr<Workload>> all;
  all.push_back(std::make_unique<StartAlone>(folder));
  all.push_back(std::make_unique<StartEach>(folder));
  all.push_back(std::make_unique<FirstTouch>(folder));
  Command walk{beside_this_program("comex-paging-load"), "--set", "256M"};
  for (int i = 0; i < 100; ++i) walk.insert(walk.end(), {"--pass", i % 2 == 0 ? "sequential" : "random"});
  all.push_back(std::make_unique<Program>(kComputes, std::move(walk), kTurns, folder));
  if (program_exists("python3")) {
    all.push_back(std::make_unique<Program>(
        kPython,
        Command{"python3", "-c",
                "for turn in range(2): print(len({s: 1 for s in sorted(str(i) for i in range(2000000))}))"},
        kTurns, folder));
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
