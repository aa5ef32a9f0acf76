// --stats and --summary: what is counted adds up, and is there however the program ended.
#include <gtest/gtest.h>

#include <fstream>

#include <nlohmann/json.hpp>

#include "cli/test_folder.h"
#include "support/process.h"

#ifdef COMEX_RUN_LIBRARY

namespace comex::test {
namespace {

using Json = nlohmann::json;

class RunStats : public testing::Test {
 protected:
  Outcome run(const std::vector<std::string>& program, const std::string& prefetch = "next") {
    std::vector<std::string> arguments{
        "run",        "--at-once", "--local", "16M", "--summary", "--stats", folder_.path("stats.json"),
        "--prefetch", prefetch,    "--"};
    arguments.insert(arguments.end(), program.begin(), program.end());
    return run_comex(arguments, folder_.path("."));
  }
  [[nodiscard]] Json stats() const {
    std::ifstream file(folder_.path("stats.json"));
    return Json::parse(file, nullptr, false);
  }

  TestFolder folder_;
};

TEST_F(RunStats, of_a_program_that_scans_and_writes) {
  const Outcome outcome =
      run({COMEX_PAGING_LOAD, "--set", "64M", "--threads", "2", "--pass", "sequential", "--pass", "random-write"});
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  const Json json = stats();
  ASSERT_TRUE(json.is_object()) << "there when the command has ended";
  EXPECT_EQ(json["processes"], 1);
  EXPECT_GT(json["faults"]["first_touch"], 0);
  EXPECT_GT(json["faults"]["from_node"], 1000);
  EXPECT_GT(json["faults"]["write_to_clean_page"], 0);
  EXPECT_GT(json["seconds_in_faults"], 0.0);
  EXPECT_GT(json["pages_prefetched_used"], 0);
  EXPECT_LE(json["pages_prefetched_used"], json["pages_prefetched"]);
  EXPECT_GT(json["pages_dropped_clean"], 0);
  EXPECT_GT(json["calls"]["trapped"].get<int>() + json["calls"]["direct"].get<int>(), 0);
  EXPECT_GT(json["local_peak_bytes"], 4 << 20);
  EXPECT_LE(json["local_peak_bytes"], 32 << 20);
  ASSERT_EQ(json["nodes"].size(), 1U);
  EXPECT_GE(json["nodes"][0]["bytes_read"], json["pages_in"].get<std::uint64_t>() << 12);
  EXPECT_GT(json["nodes"][0]["bytes_written"], 48 << 20);
  EXPECT_EQ(json["per_process"][0]["pages_in"], json["pages_in"]);
  EXPECT_EQ(json["per_process"][0]["name"], "comex-paging-lo");
  EXPECT_NE(outcome.errors.find("from nodes"), std::string::npos) << outcome.errors;
}

TEST_F(RunStats, who_waits_for_other_threads_is_not_trapped) {
  const Outcome outcome = run({"/usr/bin/python3", "-c", "import os\nfor i in range(5000): os.sched_yield()"});
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  const Json json = stats();
  ASSERT_TRUE(json.is_object());
  EXPECT_GE(json["calls"]["direct"], 5000);
  EXPECT_LT(json["calls"]["trapped"], 5000);
}

TEST_F(RunStats, leap_follows_a_stride_and_brings_nothing_at_random) {
  constexpr std::uint64_t kPages = 64 << 8;
  for (const std::string pass : {"stride10", "random"}) {
    const Outcome outcome = run({COMEX_PAGING_LOAD, "--set", "64M", "--pass", pass}, "leap");
    ASSERT_EQ(outcome.code, 0) << outcome.errors;
    const Json json = stats();
    ASSERT_TRUE(json.is_object());
    const auto reads = json["faults"]["from_node"].get<std::uint64_t>();
    const auto pages = json["pages_in"].get<std::uint64_t>();
    if (pass == "random") {
      EXPECT_LE(pages, reads + kPages / 50) << json;
    } else {
      EXPECT_LE(reads, kPages / 4) << json;
      EXPECT_LE(pages, kPages + kPages / 10) << json;
    }
  }
}

// What it forbids itself is not in the way of what it uses.
TEST_F(RunStats, of_a_program_that_hides_memory_from_itself) {
  const Outcome outcome = run({COMEX_MEMORY_LOAD, "hidden", "14"});
  ASSERT_EQ(outcome.output, "wrong: 0\n") << outcome.errors;
  const Json json = stats();
  ASSERT_TRUE(json.is_object());
  EXPECT_LT(json["pages_in"], 12000) << "20 times 1536 are used again, and 3584 come back in the end";
}

TEST_F(RunStats, of_a_tree_whose_root_is_killed) {
  const Outcome outcome =
      run({"/bin/sh", "-c", std::string(COMEX_PAGING_LOAD) + " --set 32M --pass random; kill -9 $$"});
  EXPECT_EQ(outcome.code, 128 + 9);
  const Json json = stats();
  ASSERT_TRUE(json.is_object());
  EXPECT_GE(json["processes"], 2) << json;
  std::uint64_t sum = 0;
  for (const Json& process : json["per_process"]) sum += process["pages_in"].get<std::uint64_t>();
  EXPECT_GT(sum, 0U);
  EXPECT_EQ(json["pages_in"], sum);
}

TEST_F(RunStats, a_file_that_cannot_be_written_is_said_before) {
  const Outcome outcome = run_comex({"run", "--stats", "/does/not/exist", "--", "/bin/true"}, folder_.path("."));
  EXPECT_EQ(outcome.code, 2);
  EXPECT_NE(outcome.errors.find("--stats"), std::string::npos) << outcome.errors;
}

}  // namespace
}  // namespace comex::test

#endif
