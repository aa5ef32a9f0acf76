#include "trace/encoder.h"

#include <gtest/gtest.h>

#include <random>

#include "trace/reader.h"

namespace comex {
namespace {

using Bytes = std::vector<std::byte>;

struct Seen final : TraceVisitor {
  void process(const TraceProcess& process) override { processes.push_back(process); }
  void fault(const TraceFault& fault) override { faults.push_back(fault); }
  void dropped(std::uint32_t, std::uint64_t, std::uint64_t count) override { lost += count; }

  std::vector<TraceProcess> processes;
  std::vector<TraceFault> faults;
  std::uint64_t lost = 0;
};

std::vector<TraceFault> some_faults(std::size_t count) {
  std::mt19937_64 random(7);
  std::vector<TraceFault> faults(count);
  std::uint64_t time = 1'000'000;
  for (TraceFault& fault : faults) {
    time += random() % 20'000 - 1'000;
    fault = TraceFault{.time = time,
                       .page = 0x7f0000000 + random() % 262'144,
                       .process = 3,
                       .thread = 100 + static_cast<std::uint32_t>(random() % 2),
                       .origin = static_cast<Origin>(1 + random() % 8),
                       .write = random() % 2 == 0,
                       .along = static_cast<std::uint8_t>(random() % 3 * 31),
                       .around = static_cast<std::uint8_t>(random() % 2 * 32)};
  }
  return faults;
}

Bytes some_trace(const std::vector<TraceFault>& faults) {
  TraceEncoder encoder;
  encoder.header({.page_size = 4096, .start = 42, .local = 1 << 20, .command = "sort -n"});
  encoder.process({.number = 3, .pid = 77, .time = 5, .name = "sort"});
  encoder.faults(3, faults);
  encoder.dropped(3, 9, 12);
  return encoder.take();
}

TEST(Trace, WhatIsWrittenIsRead) {
  const auto faults = some_faults(1000);
  const Bytes bytes = some_trace(faults);
  const auto reader = TraceReader::open(bytes);
  ASSERT_TRUE(reader);
  EXPECT_EQ(reader->header(), (TraceHeader{.page_size = 4096, .start = 42, .local = 1 << 20, .command = "sort -n"}));
  Seen seen;
  const auto cut = reader->read(seen);
  ASSERT_TRUE(cut);
  EXPECT_FALSE(*cut);
  EXPECT_EQ(seen.processes, (std::vector<TraceProcess>{{.number = 3, .pid = 77, .time = 5, .name = "sort"}}));
  EXPECT_EQ(seen.faults, faults);
  EXPECT_EQ(seen.lost, 12U);
}

TEST(Trace, RecordsAreSmall) {
  std::vector<TraceFault> faults(1000);
  for (std::size_t i = 0; i < faults.size(); ++i) {
    faults[i] = {.time = i * 40'000, .page = i * 32, .origin = Origin::remote, .along = 31};
  }
  EXPECT_LT(some_trace(faults).size(), 1000U * 8);
}

TEST(Trace, ATruncatedOneIsReadUpToItsLastWholeRecord) {
  const auto faults = some_faults(20);
  const Bytes bytes = some_trace(faults);
  std::size_t before = 0;
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const auto reader = TraceReader::open(std::span(bytes).first(size));
    if (!reader) {
      EXPECT_EQ(reader.error().code, Errc::invalid);
      EXPECT_EQ(before, 0U);
      continue;
    }
    Seen seen;
    ASSERT_TRUE(reader->read(seen)) << size;
    ASSERT_TRUE(std::equal(seen.faults.begin(), seen.faults.end(), faults.begin()));
    EXPECT_GE(seen.faults.size(), before);
    before = seen.faults.size();
  }
  EXPECT_EQ(before, faults.size());
}

TEST(Trace, WhatMakesNoSenseIsRefused) {
  const Bytes foreign(100, std::byte{'x'});
  EXPECT_FALSE(TraceReader::open(foreign));
  EXPECT_FALSE(TraceReader::open({}));
  Bytes newer = some_trace({});
  newer[8] = std::byte{2};
  EXPECT_FALSE(TraceReader::open(newer));
  TraceEncoder encoder;
  encoder.header({});
  encoder.dropped(1, 2, 3);  // of a process that was never told
  const Bytes stray = encoder.take();
  Seen seen;
  EXPECT_FALSE(TraceReader::open(stray)->read(seen));
}

}  // namespace
}  // namespace comex
