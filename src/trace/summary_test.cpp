#include "trace/summary.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "trace/address_map.h"
#include "trace/drawing.h"
#include "trace/report.h"

namespace comex {
namespace {

constexpr std::uint64_t kMs = 1'000'000;

class TraceSummaryTest : public ::testing::Test {
 protected:
  TraceSummaryTest() {
    encoder_.header({.local = 64 << 20, .command = "a \x1b program"});
    encoder_.process({.number = 1, .pid = 10, .name = "first"});
    encoder_.process({.number = 2, .pid = 20, .name = "second"});
  }
  // A scan of so many faults, each `step` further, with so many pages that came along.
  void scan(std::uint32_t process, std::uint32_t thread, std::uint64_t page, std::uint64_t step, std::size_t count,
            std::uint8_t along = 0, Origin origin = Origin::remote) {
    std::vector<TraceFault> faults;
    for (std::size_t i = 0; i < count; ++i) {
      faults.push_back({.time = (++time_) * kMs,
                        .page = page + i * step,
                        .process = process,
                        .thread = thread,
                        .origin = origin,
                        .along = along});
    }
    encoder_.faults(process, faults);
  }
  const TraceReader& reader() {
    const auto more = encoder_.take();
    bytes_.insert(bytes_.end(), more.begin(), more.end());
    reader_.emplace(*TraceReader::open(bytes_));
    return *reader_;
  }
  TraceSummary summary(const TraceFilter& filter = {}) { return *summarise(reader(), filter); }

  TraceEncoder encoder_;
  std::vector<std::byte> bytes_;
  std::optional<TraceReader> reader_;
  std::uint64_t time_ = 0;
};

TEST_F(TraceSummaryTest, stepsAreToldApart) {
  scan(1, 11, 1000, 32, 11, 31);  // what came along ends where the next begins
  scan(1, 12, 90'000, 10, 12);    // a stride: known from the third fault on
  scan(2, 20, 5000, 1, 6);
  const TraceSummary all = summary();
  ASSERT_EQ(all.processes.size(), 2U);
  EXPECT_EQ(all.processes[0].process.name, "first") << "the one with the most faults";
  const auto& threads = all.processes[0].threads;
  EXPECT_EQ(threads.at(11).steps.sequential, 10U);
  EXPECT_EQ(threads.at(11).along, 11U * 31);
  EXPECT_EQ(threads.at(12).steps.strided, 10U);
  EXPECT_EQ(threads.at(12).steps.other, 1U);
  EXPECT_EQ(all.figures().faults(), 29U);
  EXPECT_EQ(all.figures().steps.sequential, 15U);
}

TEST_F(TraceSummaryTest, streamsThatTakeTurnsAreSequential) {
  for (std::uint64_t i = 0; i < 20; ++i) {
    scan(1, 11, 1000 + i, 1, 1);
    scan(1, 11, 50'000 + i, 1, 1);
  }
  EXPECT_EQ(summary().figures().steps.sequential, 38U);
}

TEST_F(TraceSummaryTest, regionsAreWhatLiesTogether) {
  scan(1, 11, 1000, 1, 100);
  scan(1, 11, 1000, 1, 100);
  scan(1, 11, 5'000'000, 2, 50, 0, Origin::zeros);
  const auto regions = summary().regions;
  ASSERT_EQ(regions.size(), 2U);
  EXPECT_EQ(regions[0].first, 1000U);
  EXPECT_EQ(regions[0].last, 1099U);
  EXPECT_EQ(regions[0].pages, 100U);
  EXPECT_EQ(regions[0].faults, 200U);
  EXPECT_EQ(regions[1].pages, 50U);
}

TEST_F(TraceSummaryTest, onlyWhatIsMeantIsCounted) {
  scan(1, 11, 1000, 1, 100);
  scan(2, 20, 1000, 1, 10);
  encoder_.dropped(2, 50 * kMs, 7);
  EXPECT_EQ(summary({.pid = 20}).figures().faults(), 10U);
  EXPECT_EQ(summary({.pid = 20}).dropped(), 7U);
  EXPECT_EQ(summary({.pid = 30}).processes.size(), 0U);
  const TraceSummary some = summary({.from = 11 * kMs, .to = 20 * kMs});
  EXPECT_EQ(some.figures().faults(), 10U);
  EXPECT_EQ(some.end, 20 * kMs);
}

// exec: the same process goes on under another name.
TEST_F(TraceSummaryTest, aNumberMayBeAnotherProgramLater) {
  scan(1, 11, 1000, 1, 5);
  encoder_.process({.number = 1, .pid = 10, .name = "other"});
  scan(1, 11, 1000, 1, 3);
  const TraceSummary all = summary();
  ASSERT_EQ(all.processes.size(), 2U);
  EXPECT_EQ(all.processes[1].process.name, "other");
  EXPECT_EQ(all.processes[1].figures().faults(), 3U);
}

TEST_F(TraceSummaryTest, isToldToPeopleAndPrograms) {
  scan(1, 11, 1000, 1, 100);
  encoder_.dropped(1, kMs, 3);
  const std::string text = to_text(summary());
  EXPECT_TRUE(text.starts_with("a ? program: 100 faults in 0.10 s, 1 process, 64.0 MiB local\n")) << text;
  EXPECT_NE(text.find("node 100 (100 %)"), std::string::npos) << text;
  EXPECT_NE(text.find("3 faults more"), std::string::npos) << text;
  const auto json = nlohmann::json::parse(to_json(summary()));
  EXPECT_EQ(json["by_origin"]["from_node"], 100);
  EXPECT_EQ(json["dropped"], 3);
  EXPECT_EQ(json["processes"][0]["threads"][0]["id"], 11);
  EXPECT_EQ(json["regions"][0]["pages"], 100);
}

TEST_F(TraceSummaryTest, isDrawn) {
  scan(1, 11, 1000, 1, 100);
  scan(1, 11, 34'000'000'000, 1, 100, 0, Origin::zeros);
  const auto chart = draw(reader(), {}, summary());
  ASSERT_TRUE(chart);
  const std::string svg = plot::to_svg(*chart);
  for (const char* part : {"node: 100", "first touch: 100", ">3e8000<", ">address<", ">seconds<"}) {
    EXPECT_NE(svg.find(part), std::string::npos) << part;
  }
  EXPECT_EQ(chart->y.breaks.size(), 1U);
  EXPECT_TRUE(draw(reader(), {.pid = 30}, summary({.pid = 30}))) << "nothing can be drawn, too";
}

TEST(AddressMap, whatIsFarApartIsDrawnTogether) {
  const std::uint64_t far = std::uint64_t{0x7f} << 28;
  const AddressMap map({{far, far + 9999}, {100, 100}, {far + 10'100, far + 20'099}}, 4096);
  EXPECT_EQ(map.breaks().size(), 1U) << "the smaller gap is drawn as it is";
  EXPECT_LT(map.place(100), map.breaks()[0]);
  EXPECT_GT(map.place(far), map.breaks()[0]);
  EXPECT_LT(map.place(far), 0.1);
  EXPECT_GT(map.place(far + 20'099), 0.99);
  EXPECT_LE(map.place(far + 20'099), 1);
  double last = -1;
  for (const auto& tick : map.ticks(0.03)) {
    EXPECT_GE(tick.at, last + 0.03);
    last = tick.at;
  }
}

TEST(AddressMap, aThousandRegionsHaveRoom) {
  std::vector<PageSpan> spans;
  for (std::uint64_t i = 0; i < 1000; ++i) spans.push_back({i << 20, (i << 20) + i});
  const AddressMap map(spans, 4096);
  double last = 0;
  for (const PageSpan& span : spans) {
    EXPECT_GT(map.place(span.first), last);
    last = map.place(span.last);
  }
  EXPECT_LE(last, 1);
}

}  // namespace
}  // namespace comex
