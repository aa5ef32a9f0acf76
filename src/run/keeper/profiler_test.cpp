#include "run/keeper/profiler.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <random>

#include "cli/test_folder.h"

namespace comex {
namespace {

class ProfilerTest : public ::testing::Test {
 protected:
  ProfilerTest() : score_(std::make_unique<Memory>()) {}

  // A run of `program`, whose threads fault so. Returns what is said of it.
  std::string run(std::uint64_t program, const std::vector<std::uint64_t>& pages, const Profiler::Played& played = {}) {
    *score_ = {};
    Profiler profiler(file(), score_->bytes);
    profiler.process(1, "program");
    profiler.note(1, {TraceNote::executable, program});
    profiler.note(1, {TraceNote::image, 100});
    profiler.note(1, {TraceNote::heap, 200});
    profiler.note(1, {TraceNote::mappings, std::uint64_t{1} << 30});
    profiler.note(1, {UINT64_MAX, 1});  // whatever that is
    for (const std::uint64_t page : pages) {
      for (const Origin origin : {Origin::zeros, Origin::written, Origin::remote, Origin::already}) {
        const TraceFault fault{.page = page, .thread = 7, .origin = origin};
        profiler.faults(1, std::span(&fault, 1));
      }
    }
    return profiler.conclude(played);
  }
  [[nodiscard]] std::string file() const { return folder_.path("profile"); }
  [[nodiscard]] Expected<Profile> read() const {
    std::ifstream in(file(), std::ios::binary);
    const std::string text(std::istreambuf_iterator<char>(in), {});
    return decode_profile(std::as_bytes(std::span(text)));
  }
  void expect_line(const std::string& line, const std::string& has) {
    EXPECT_NE(line.find(has), std::string::npos) << line;
    EXPECT_EQ(line.find('\n'), std::string::npos);
    // Nothing is left beside it.
    for (const auto& each : std::filesystem::directory_iterator(folder_.path("."))) {
      EXPECT_EQ(each.path().filename(), "profile");
    }
  }

  struct Memory {
    alignas(kPageSize) std::array<std::byte, 1 << 16> bytes;
  };
  TestFolder folder_;
  std::unique_ptr<Memory> score_;
};

TEST_F(ProfilerTest, firstRun_isWrittenDownFromItsAnchors) {
  expect_line(run(1, {110, 205, 104, 205}), "made: 4 faults of 1 process");
  const auto profile = read();
  ASSERT_TRUE(profile) << profile.error().message;
  ASSERT_EQ(profile->processes.size(), 1U);
  const ProfiledProcess& process = profile->processes[0];
  EXPECT_EQ(process.name, "program");
  EXPECT_EQ(process.executable, 1U);
  const Anchors anchors{{PageNo{1100}, PageNo{1200}, PageNo{std::uint64_t{1} << 31}}};
  std::vector<std::uint64_t> moved;
  for (const std::uint64_t key : process.threads[0]) moved.push_back(anchors.page_of(PageKey{key}).value);
  EXPECT_EQ(moved, (std::vector<std::uint64_t>{1110, 1205, 1104, 1205}));
}

TEST_F(ProfilerTest, nothingToKeep_isSaidAndNothingWritten) {
  expect_line(run(1, {}), "not made");
  EXPECT_FALSE(std::filesystem::exists(file()));
}

TEST_F(ProfilerTest, oneThatFits_isReadyToBePlayedAndStays) {
  run(1, {110, 205, 104});
  const auto before = read();
  expect_line(run(1, {110, 205, 104}, {.known = 95, .unknown = 5, .anybody = true}),
              "used; it knew 95 % of 100 faults");
  const auto& score = *reinterpret_cast<const Score*>(score_->bytes.data());
  ASSERT_EQ(score.count, 1U);
  EXPECT_EQ(score.parts[0].executable, 1U);
  EXPECT_EQ(score.parts[0].faults, 3U);
  EXPECT_EQ(*read(), *before);
}

TEST_F(ProfilerTest, oneThatKnowsHalf_learns) {
  std::vector<std::uint64_t> first;
  std::vector<std::uint64_t> second;
  for (std::uint64_t i = 0; i < 300; ++i) {
    if (i % 3 != 0) first.push_back(1000 + i * 7 % 300);
    if (i % 3 != 1) second.push_back(1000 + i * 7 % 300);
  }
  run(1, first);
  expect_line(run(1, second, {.known = 50, .unknown = 50, .anybody = true}), "were added");
  EXPECT_GT(read()->faults(), 280U);
}

TEST_F(ProfilerTest, oneThatDoesNotFit_isMadeAnew) {
  run(1, {110, 205, 104});
  expect_line(run(2, {120}, {.known = 0, .unknown = 100, .anybody = false}), "did not fit (it was of another program");
  EXPECT_EQ(read()->processes.at(0).executable, 2U);
  expect_line(run(2, {120, 121}, {.known = 10, .unknown = 90, .anybody = true}), "did not fit (it knew 10 %");
  EXPECT_EQ(read()->faults(), 2U);
  std::ofstream(file(), std::ios::binary | std::ios::app) << "x";
  expect_line(run(2, {120}), "did not fit (it is damaged), made");
  EXPECT_EQ(read()->faults(), 1U);
}

TEST_F(ProfilerTest, oneThatIsNotPlayed_isMadeAnew) {
  run(1, {110, 205, 104});
  expect_line(run(1, {110}, {.wanted = false}), "profile: made: 1 faults");
  EXPECT_EQ(read()->faults(), 1U);
}

TEST_F(ProfilerTest, oneThatDoesNotFit_staysWhereThereIsNothingElse) {
  run(1, {110, 205, 104});
  expect_line(run(2, {}), "not made");
  EXPECT_EQ(read()->faults(), 3U);
}

}  // namespace
}  // namespace comex
