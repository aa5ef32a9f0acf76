// --trace and `comex trace`: every fault is in the trace, or counted as dropped, however the program ended.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include <nlohmann/json.hpp>

#include "base/fd.h"
#include "cli/test_folder.h"
#include "support/process.h"

namespace comex::test {
namespace {

using Json = nlohmann::json;

class RunTrace : public testing::Test {
 protected:
  Outcome trace(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "trace");
    return run_comex(arguments, folder_.path("."));
  }
  void write(const std::string& name, const std::string& bytes) const {
    std::ofstream(folder_.path(name), std::ios::binary) << bytes;
  }
  [[nodiscard]] std::string read(const std::string& name) const {
    std::ifstream file(folder_.path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  TestFolder folder_;
};

TEST_F(RunTrace, what_is_no_trace_is_refused_in_one_line) {
  write("empty", "");
  write("foreign", std::string(5000, 'x'));
  write("newer", std::string("comextrc\x07\x00", 10) + std::string(100, '\0'));
  for (const char* name : {"empty", "foreign", "newer", ".", "not-there"}) {
    const Outcome outcome = trace({folder_.path(name)});
    EXPECT_EQ(outcome.code, 2) << name;
    EXPECT_EQ(std::count(outcome.errors.begin(), outcome.errors.end(), '\n'), 1) << outcome.errors;
    EXPECT_TRUE(outcome.output.empty());
  }
}

#ifdef COMEX_RUN_LIBRARY

class RunTraced : public RunTrace {
 protected:
  Outcome run(const std::vector<std::string>& program, const std::string& faults = "inline") {
    std::vector<std::string> arguments{
        "run",     "--at-once", "--local",  "16M",  "--stats", folder_.path("stats.json"),
        "--trace", file(),      "--faults", faults, "--"};
    arguments.insert(arguments.end(), program.begin(), program.end());
    return run_comex(arguments, folder_.path("."));
  }
  [[nodiscard]] std::string file() const { return folder_.path("trace"); }
  [[nodiscard]] Json stats() const { return Json::parse(read("stats.json"), nullptr, false); }
  Json traced(std::vector<std::string> flags = {}) {
    flags.insert(flags.begin(), {file(), "--json"});
    const Outcome outcome = trace(flags);
    EXPECT_EQ(outcome.code, 0) << outcome.errors;
    return Json::parse(outcome.output, nullptr, false);
  }
  static std::uint64_t sum(const Json& faults) {
    std::uint64_t sum = 0;
    for (const Json& count : faults) sum += count.get<std::uint64_t>();
    return sum;
  }
};

TEST_F(RunTraced, has_all_faults_of_all_processes) {
  const std::string load = std::string(COMEX_PAGING_LOAD) + " --set 48M --threads 2 --pass sequential --pass random";
  for (const std::string faults : {"inline", "message"}) {
    const Outcome outcome = run({"/bin/sh", "-c", load + "; " + load + " & wait"}, faults);
    ASSERT_EQ(outcome.code, 0) << outcome.errors;
    const Json json = traced();
    ASSERT_TRUE(json.is_object());
    EXPECT_TRUE(json["complete"]);
    EXPECT_EQ(json["local_limit_bytes"], 16 << 20);
    EXPECT_EQ(json["dropped"].get<std::uint64_t>() + json["faults"].get<std::uint64_t>(), sum(stats()["faults"]));
    if (json["dropped"] == 0) {
      for (const auto& [origin, count] : stats()["faults"].items()) {
        EXPECT_EQ(json["by_origin"][origin], count) << origin << " by " << faults;
      }
    }
    std::size_t loads = 0;
    for (const Json& process : json["processes"]) {
      if (process["name"] != "comex-paging-lo") continue;
      ++loads;
      EXPECT_GE(process["threads"].size(), 2U) << "by " << faults;
      EXPECT_NE(process["threads"][0]["id"], 0);
    }
    EXPECT_EQ(loads, 2U);
  }
}

// Killed in the middle: between the count of a fault and its record there is room for one fault of each thread.
TEST_F(RunTraced, of_a_process_that_is_killed_nothing_is_missing) {
  const std::string script = std::string(COMEX_PAGING_LOAD) +
                             " --set 32M --threads 2 --pass random --pass random --pass random --pass random"
                             " --pass random --pass random --pass random --pass random & load=$!;"
                             "while [ $(stat -c %s " +
                             file() + ") -lt 30000 ]; do :; done; kill -9 $load; wait; exit 0";
  const Outcome outcome = run({"/bin/sh", "-c", script});
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  const Json json = traced();
  const std::uint64_t counted = sum(stats()["faults"]);
  const auto found = json["dropped"].get<std::uint64_t>() + json["faults"].get<std::uint64_t>();
  EXPECT_LE(found, counted);
  EXPECT_LE(counted - found, 2U);
  EXPECT_GT(json["faults"], 1000);
}

TEST_F(RunTraced, is_shown_and_drawn) {
  ASSERT_EQ(run({COMEX_PAGING_LOAD, "--set", "48M", "--pass", "sequential"}).code, 0);
  const Outcome outcome = trace({file(), "--svg", folder_.path("a.svg"), "--png", folder_.path("a.png")});
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_NE(outcome.output.find("served from"), std::string::npos) << outcome.output;
  EXPECT_TRUE(read("a.svg").ends_with("</svg>\n"));
  EXPECT_TRUE(read("a.png").starts_with("\x89PNG"));
  const Json json = traced();
  EXPECT_GT(json["steps"]["sequential"].get<int>(), 10 * json["steps"]["other"].get<int>()) << json["steps"];
  EXPECT_EQ(traced({"--from", "0", "--to", "0"})["faults"], 0);
  EXPECT_EQ(traced({"--process", to_string(json["processes"][0]["pid"])})["faults"], json["processes"][0]["faults"]);
  EXPECT_EQ(trace({file(), "--process", "1"}).code, 2);
  EXPECT_EQ(trace({file(), "--from", "2", "--to", "1"}).code, 2);
  EXPECT_EQ(trace({file(), "--svg", "/does/not/exist"}).code, 2);
}

TEST_F(RunTraced, a_file_that_ends_too_early_is_read_as_far_as_it_goes) {
  ASSERT_EQ(run({COMEX_PAGING_LOAD, "--set", "48M", "--pass", "random"}).code, 0);
  const auto all = traced()["faults"].get<std::uint64_t>();
  std::filesystem::resize_file(file(), std::filesystem::file_size(file()) / 2);
  const Json json = traced();
  EXPECT_FALSE(json["complete"]);
  EXPECT_GT(json["faults"].get<std::uint64_t>(), all / 3);
  EXPECT_LT(json["faults"].get<std::uint64_t>(), all);
}

// Its reader could stop reading, and the program would not end.
TEST_F(RunTraced, a_pipe_is_refused) {
  ASSERT_EQ(::mkfifo(file().c_str(), 0600), 0);
  const Fd reader(::open(file().c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  ASSERT_TRUE(reader);
  const Outcome outcome = run({"/bin/true"});
  EXPECT_EQ(outcome.code, 2);
  ASSERT_EQ(outcome.complaints().size(), 1U) << outcome.errors;
  EXPECT_NE(outcome.errors.find("is a pipe"), std::string::npos) << outcome.errors;
}

TEST_F(RunTraced, a_file_that_cannot_be_written_is_said) {
  const Outcome before = run_comex({"run", "--trace", "/does/not/exist", "--", "/bin/true"}, folder_.path("."));
  EXPECT_EQ(before.code, 2);
  EXPECT_NE(before.errors.find("--trace"), std::string::npos) << before.errors;
  const Outcome full = run_comex({"run", "--trace", "/dev/full", "--", "/bin/echo", "done"}, folder_.path("."));
  EXPECT_EQ(full.code, 0);
  EXPECT_EQ(full.output, "done\n");
  EXPECT_NE(full.errors.find("--trace"), std::string::npos) << full.errors;
}

#endif

}  // namespace
}  // namespace comex::test
