// `comex bench keep`: little memory through the whole of it.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/test_folder.h"
#include "support/process.h"

#ifdef COMEX_RUN_LIBRARY

namespace comex::test {
namespace {

using Json = nlohmann::json;

TEST(BenchKeep, nodes_are_stopped_and_killed_and_no_page_is_wrong) {
  const TestFolder folder;
  const Outcome outcome = run_comex({"bench", "keep", "--quick", "--json"}, folder.path("."), Millis(240'000));
  ASSERT_EQ(outcome.code, 0) << outcome.errors << outcome.output;
  const Json json = Json::parse(outcome.output, nullptr, false);
  ASSERT_TRUE(json.is_object()) << outcome.output;
  EXPECT_EQ(json["failed"].size(), 0U);
  double held = 0;
  for (const Json& figure : json["figures"]) {
    if (figure["keeping"] == "--code 4+1" && figure["metric"] == "held: filled") {
      held = figure["figure"];
    }
    // By one who does nothing else than to look how long it takes.
    const std::string metric = figure["metric"];
    if (metric == "longest wait: node stopped" || metric == "longest wait: node killed") {
      EXPECT_LE(figure["figure"].get<double>(), 2000) << figure;
    }
  }
  EXPECT_GE(held, 1.25);
  EXPECT_LT(held, 2.0) << "or two copies would do";
  EXPECT_EQ(json["figures"].size(), 8U + 12U + 12U);
}

}  // namespace
}  // namespace comex::test

#endif
