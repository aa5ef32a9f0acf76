#include "base/units.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

namespace comex {
namespace {

TEST(UnitsTest, parseSize_whatPeopleWrite) {
  const std::pair<const char*, std::uint64_t> cases[] = {
      {"0", 0},
      {"4096", 4096},
      {"17B", 17},
      {"64K", 64 * kKiB},
      {"64k", 64 * kKiB},
      {"512M", 512 * kMiB},
      {"4G", 4 * kGiB},
      {"4GB", 4 * kGiB},
      {"4GiB", 4 * kGiB},
      {"1.5T", kTiB + kTiB / 2},
      {"0.25G", kGiB / 4},
      {" 1.50 GiB ", kGiB + kGiB / 2},
      {"18446744073709551615", std::numeric_limits<std::uint64_t>::max()},
      {"15E", 15 * kTiB * kMiB},
  };
  for (const auto& [text, bytes] : cases) {
    const auto size = parse_size(text);
    ASSERT_TRUE(size) << text << ": " << size.error().message;
    EXPECT_EQ(*size, bytes) << text;
  }
}

TEST(UnitsTest, parseSize_largeWholePartIsExact) {
  EXPECT_EQ(*parse_size("18014398509481983K"), 18014398509481983ULL * kKiB);
}

TEST(UnitsTest, parseSize_refusesTheRest) {
  for (const char* text : {"",
                           " ",
                           "G",
                           "-1",
                           "+1",
                           "4X",
                           "4 G G",
                           "4Gi",
                           "1.5",
                           "1.5B",
                           ".5G",
                           "1.G",
                           "1..5G",
                           "0x10",
                           "4GiBB",
                           "four",
                           "1e3",
                           "16E",
                           "18446744073709551616",
                           "18014398509481984K"}) {
    const auto size = parse_size(text);
    ASSERT_FALSE(size) << text;
    EXPECT_EQ(size.error().code, Errc::invalid);
    EXPECT_NE(size.error().message.find("512M"), std::string::npos) << "says what a right one looks like";
    EXPECT_EQ(size.error().message.find('\n'), std::string::npos);
  }
}

TEST(UnitsTest, formatSize_threeFigures) {
  EXPECT_EQ(format_size(0), "0 B");
  EXPECT_EQ(format_size(1023), "1023 B");
  EXPECT_EQ(format_size(1024), "1.00 KiB");
  EXPECT_EQ(format_size(kGiB + kGiB / 2), "1.50 GiB");
  EXPECT_EQ(format_size(15 * kMiB), "15.0 MiB");
  EXPECT_EQ(format_size(150 * kMiB), "150 MiB");
  EXPECT_EQ(format_size(1000 * kMiB), "1000 MiB");
  EXPECT_EQ(format_size(10 * kMiB - 1), "10.0 MiB") << "rounding up does not add a fourth figure";
  EXPECT_EQ(format_size(kGiB - 1), "1.00 GiB") << "nor a 1024 MiB";
  EXPECT_EQ(format_size(std::numeric_limits<std::uint64_t>::max()), "16.0 EiB");
}

TEST(UnitsTest, formatSize_isReadBackWithinRounding) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 10'000; ++i) {
    const std::uint64_t bytes = random() >> (random() % 63 + 1);
    const auto back = parse_size(format_size(bytes));
    ASSERT_TRUE(back) << bytes;
    EXPECT_NEAR(static_cast<double>(*back), static_cast<double>(bytes), static_cast<double>(bytes) * 0.0051) << bytes;
  }
}

TEST(UnitsTest, parseDuration_whatPeopleWrite) {
  EXPECT_EQ(*parse_duration("500ms"), Millis(500));
  EXPECT_EQ(*parse_duration("10s"), Millis(10'000));
  EXPECT_EQ(*parse_duration("1.5s"), Millis(1'500));
  EXPECT_EQ(*parse_duration("2m"), Millis(120'000));
  EXPECT_EQ(*parse_duration("2 min"), Millis(120'000));
  EXPECT_EQ(*parse_duration("1h"), Millis(3'600'000));
  EXPECT_EQ(*parse_duration("0s"), Millis(0));
}

TEST(UnitsTest, parseDuration_refusesTheRest) {
  for (const char* text : {"", "10", "s", "-1s", "10 years", "10us", "99999999h", "1.s", "99999999999999999999s"}) {
    const auto duration = parse_duration(text);
    ASSERT_FALSE(duration) << text;
    EXPECT_NE(duration.error().message.find("10s"), std::string::npos);
  }
}

TEST(UnitsTest, formatDuration_suitableUnit) {
  EXPECT_EQ(format_duration(Millis(350)), "350 ms");
  EXPECT_EQ(format_duration(Millis(9'500)), "9.5 s");
  EXPECT_EQ(format_duration(Millis(9'990)), "10 s");
  EXPECT_EQ(format_duration(Millis(59'700)), "1 min 0 s");
  EXPECT_EQ(format_duration(Millis(200'000)), "3 min 20 s");
  EXPECT_EQ(format_duration(Millis(7'500'000)), "2 h 5 min");
}

}  // namespace
}  // namespace comex
