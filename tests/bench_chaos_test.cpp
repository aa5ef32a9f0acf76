// `comex bench chaos`: a short storm, with copies and without.
#include <gtest/gtest.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "cli/test_folder.h"
#include "support/process.h"

#ifdef COMEX_RUN_LIBRARY

namespace comex::test {
namespace {

using Json = nlohmann::json;

// With exit code 0 nothing was wrong.
Json storm(const std::vector<std::string>& flags) {
  const TestFolder folder;
  std::vector<std::string> words{"bench", "chaos", "--quick", "--json"};
  words.insert(words.end(), flags.begin(), flags.end());
  const Outcome outcome = run_comex(words, folder.path("."), Millis(170'000));
  EXPECT_EQ(outcome.code, 0) << outcome.output << outcome.errors;
  return Json::parse(outcome.output, nullptr, false);
}

TEST(BenchChaos, two_copies_no_program_is_lost) {
  if (::geteuid() != 0) GTEST_SKIP() << "network namespaces need root";
  const Json json = storm({"--faults", "20", "--seed", "3"});
  ASSERT_TRUE(json.is_object());
  EXPECT_EQ(json["faults"].size(), 8U) << "some of each kind";
  EXPECT_GT(json["programs_well"], 0);
  EXPECT_EQ(json["programs_stopped"], 0);
}

TEST(BenchChaos, one_copy_a_clear_end) {
  if (::geteuid() != 0) GTEST_SKIP() << "network namespaces need root";
  const Json json = storm({"--faults", "3", "--copies", "1", "--programs", "1", "--seed", "7"});
  ASSERT_TRUE(json.is_object());
  EXPECT_GT(json["programs_well"].get<int>() + json["programs_stopped"].get<int>(), 0);
}

TEST(BenchChaos, coded_no_program_is_lost) {
  if (::geteuid() != 0) GTEST_SKIP() << "network namespaces need root";
  // The seed draws nodes that are killed, stopped and cut off.
  const Json json = storm({"--faults", "3", "--code", "4+1", "--nodes", "6", "--programs", "1", "--seed", "8"});
  ASSERT_TRUE(json.is_object());
  EXPECT_GT(json["programs_well"], 0);
  EXPECT_EQ(json["programs_stopped"], 0);
}

TEST(BenchChaos, more_copies_than_nodes) {
  const TestFolder folder;
  EXPECT_EQ(run_comex({"bench", "chaos", "--nodes", "2", "--copies", "3"}, folder.path(".")).code, 2);
  EXPECT_EQ(run_comex({"bench", "chaos", "--nodes", "4", "--code", "4+1"}, folder.path(".")).code, 2);
}

}  // namespace
}  // namespace comex::test

#endif
