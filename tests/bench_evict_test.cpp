// `comex bench evict`: little memory through the whole of it.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/test_folder.h"
#include "support/process.h"

#ifdef COMEX_RUN_LIBRARY

namespace comex::test {
namespace {

using Json = nlohmann::json;

TEST(BenchEvict, no_policy_is_better_than_the_best) {
  const TestFolder folder;
  const Outcome outcome = run_comex(
      {"bench", "evict", "--quick", "--rounds", "1", "--references", "loop,zipf", "--json"}, folder.path("."));
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  const Json json = Json::parse(outcome.output, nullptr, false);
  ASSERT_TRUE(json.is_object()) << outcome.output;
  ASSERT_EQ(json["strings"].size(), 2U);
  for (const Json& string : json["strings"]) {
    ASSERT_EQ(string["policies"].size(), 3U) << string["references"];
    for (const Json& policy : string["policies"]) {
      EXPECT_GE(policy["missed"], string["best"]) << string["references"] << " " << policy["policy"];
    }
  }
}

}  // namespace
}  // namespace comex::test

#endif
