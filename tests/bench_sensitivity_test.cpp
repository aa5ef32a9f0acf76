// `comex bench sensitivity`: one small program, with all its memory and with less.
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include <nlohmann/json.hpp>

#include "cli/test_folder.h"
#include "support/process.h"

#ifdef COMEX_RUN_LIBRARY

namespace comex::test {
namespace {

using Json = nlohmann::json;

TEST(BenchSensitivity, says_how_much_memory_there_really_was) {
  const TestFolder folder;
  const Outcome outcome = run_comex({"bench", "sensitivity", "--quick", "--workload", "zipf", "--vary", "memory",
                                     "--json", "--plot", folder.path("plots")},
                                    folder.path("."));
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  const Json json = Json::parse(outcome.output, nullptr, false);
  ASSERT_TRUE(json.is_object()) << outcome.output;
  ASSERT_EQ(json["programs"].size(), 1U);
  constexpr double kLeastLocal = 16 << 20;
  const double least = kLeastLocal / json["programs"][0]["wanted_bytes"].get<double>();
  std::set<std::string> seen;
  for (const Json& figure : json["figures"]) {
    EXPECT_GT(figure["seconds"], 0.0);
    const Json which{figure["varied"], figure["system"], figure["value"]};
    EXPECT_TRUE(seen.insert(which.dump()).second) << which << " twice";
    EXPECT_GE(figure["value"].get<double>() + 1, 100 * least) << "comex run takes no less";
  }
  EXPECT_TRUE(seen.contains(R"(["memory","comex shm",100])"));
  EXPECT_TRUE(std::filesystem::exists(folder.path("plots/sensitivity-faults-shm.svg")));
}

}  // namespace
}  // namespace comex::test

#endif
