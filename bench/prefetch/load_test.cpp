#include "bench/prefetch/load.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "bench/prefetch/load_graph.h"

namespace comex::bench {
namespace {

constexpr std::uint64_t kLoadBytes = std::uint64_t{2} << 20;

TEST(LoadWork, run_isRightAndTheSameEachTime) {
  for (const std::string_view name : load_names()) {
    const auto once = make_load_work(name, kLoadBytes, 1);
    const auto again = make_load_work(name, kLoadBytes, 1);
    const auto other = make_load_work(name, kLoadBytes, 2);
    ASSERT_TRUE(once != nullptr && again != nullptr && other != nullptr) << name;
    const LoadTimes times = run_load_work(*once, {});
    EXPECT_EQ(times.wrong, "") << name;
    EXPECT_EQ(times.result, run_load_work(*again, {}).result) << name;
    const LoadTimes others = run_load_work(*other, {});
    EXPECT_EQ(others.wrong, "") << name;
    // These orders have nothing random in them.
    const bool fixed = name == "sequential" || name == "stride10" || name == "interleaved4";
    EXPECT_EQ(times.result == others.result, fixed) << name;
  }
  EXPECT_EQ(make_load_work("juggling", kLoadBytes, 1), nullptr);
}

TEST(LoadWork, check_findsASpoiledByte) {
  for (const std::string_view name : load_names()) {
    const auto work = make_load_work(name, kLoadBytes, 1);
    // Walks look at the first word of every page they visit; favourites may not include a page, so take one they do.
    const auto spoiled = [&] {
      if (name != "zipf" && name != "changing-stride") return run_load_work(*work, 4096).wrong;
      work->prepare();
      for (std::uint64_t at = 0; at < kLoadBytes; at += 4096) work->data()[at] ^= std::byte{1};
      work->work();
      return work->check();
    }();
    EXPECT_NE(spoiled, "") << name;
  }
}

TEST(LoadWork, toJson_isOneLine) {
  EXPECT_EQ(
      to_json("bfs", {0.5, 1.25, 255, ""}),
      R"({"workload":"bfs","prepare_seconds":0.500000,"seconds":1.250000,"result":"00000000000000ff","right":true})");
}

TEST(LoadGraph, make_fewVerticesHaveManyEdges) {
  LoadGraph graph(kLoadBytes, 8, 1);
  graph.make();
  EXPECT_EQ(graph.check(), "");
  std::vector<std::size_t> degrees;
  std::size_t edges = 0;
  for (std::uint32_t vertex = 0; vertex < graph.vertices(); ++vertex) {
    degrees.push_back(graph.row(vertex).size());
    edges += degrees.back();
    for (const std::uint32_t target : graph.row(vertex)) ASSERT_LT(target, graph.vertices());
  }
  EXPECT_EQ(*std::max_element(degrees.begin(), degrees.end()), graph.row(graph.busiest()).size());
  std::sort(degrees.rbegin(), degrees.rend());
  std::size_t of_the_busiest = 0;
  for (std::size_t i = 0; i < degrees.size() / 10; ++i) of_the_busiest += degrees[i];
  EXPECT_GT(of_the_busiest, edges / 2);
  EXPECT_NEAR(static_cast<double>(edges) * 4, kLoadBytes, kLoadBytes / 4.0);
}

}  // namespace
}  // namespace comex::bench
