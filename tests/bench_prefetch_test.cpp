// `comex bench prefetch`: one small program through the whole of it.
#include <gtest/gtest.h>

#include <filesystem>

#include <nlohmann/json.hpp>

#include "cli/test_folder.h"
#include "support/process.h"

#ifdef COMEX_RUN_LIBRARY

namespace comex::test {
namespace {

using Json = nlohmann::json;

TEST(BenchPrefetch, measures_and_draws) {
  const TestFolder folder;
  const Outcome outcome =
      run_comex({"bench", "prefetch", "--quick", "--workload", "sequential", "--prefetch", "none,leap,readahead,record",
                 "--evict", "fifo", "--system", "comex shm,comex tcp", "--json", "--plot", folder.path("plots")},
                folder.path("."));
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  const Json json = Json::parse(outcome.output, nullptr, false);
  ASSERT_TRUE(json.is_object()) << outcome.output;
  ASSERT_EQ(json["figures"].size(), 10U);
  for (const Json& figure : json["figures"]) {
    EXPECT_GT(figure["seconds"], 0.0);
    EXPECT_GT(figure["faults_from_node"], 0);
  }
  const Json& leap = json["figures"][1];
  EXPECT_EQ(leap["prefetch"], "leap");
  EXPECT_GT(leap["coverage"], 0.5);
  EXPECT_GT(leap["accuracy"], 0.5);
  EXPECT_GT(json["figures"][2]["lead_us_p50"], 0) << "readahead has pages wait in the read buffer";
  EXPECT_EQ(json["figures"][4]["prefetch"], json["usual_prefetch"]);
  EXPECT_EQ(json["figures"][4]["evict"], "fifo");
  EXPECT_TRUE(std::filesystem::exists(folder.path("plots/prefetch-coverage-shm.svg")));
}

TEST(BenchPrefetch, refuses_what_it_does_not_know) {
  const TestFolder folder;
  const Outcome outcome = run_comex({"bench", "prefetch", "--workload", "juggling"}, folder.path("."));
  EXPECT_EQ(outcome.code, 2);
  EXPECT_NE(outcome.errors.find("juggling"), std::string::npos) << outcome.errors;
}

}  // namespace
}  // namespace comex::test

#endif
