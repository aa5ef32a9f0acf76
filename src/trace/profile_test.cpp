#include "trace/profile.h"

#include <gtest/gtest.h>

#include <random>

namespace comex {
namespace {

using Bytes = std::vector<std::byte>;

Profile some_profile() {
  return Profile{
      .processes = {{.name = "one", .executable = 1, .arguments = 2, .threads = {{5, 7, 7, 3}, {}, {1}}},
                    {.name = "", .executable = UINT64_MAX, .arguments = 0, .threads = {{UINT64_MAX, 0, 1ULL << 63}}},
                    {.name = "three", .executable = 3, .arguments = 4, .threads = {}}}};
}

Profile one_thread() {
  Profile profile;
  profile.processes.emplace_back().threads.emplace_back();
  return profile;
}

TEST(Profile, whatWasWrittenIsRead) {
  for (const Profile& profile : {Profile{}, some_profile()}) {
    const auto read = decode_profile(encode_profile(profile));
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(*read, profile);
  }
  EXPECT_EQ(some_profile().faults(), 8U);
}

TEST(Profile, neighboursTakeOneByteEach) {
  Profile profile = one_thread();
  for (std::uint64_t i = 0; i < 1000; ++i) profile.processes[0].threads[0].push_back(1000 + i % 50);
  EXPECT_LT(encode_profile(profile).size(), 1100U);
}

TEST(Profile, whatIsCutOrChangedIsRefused) {
  const Bytes whole = encode_profile(some_profile());
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const auto read = decode_profile(std::span(whole).first(size));
    ASSERT_FALSE(read) << size;
    EXPECT_EQ(read.error().code, Errc::invalid);
    EXPECT_FALSE(read.error().message.empty());
  }
  for (std::size_t at = 0; at < whole.size(); ++at) {
    Bytes changed = whole;
    changed[at] ^= std::byte{4};
    EXPECT_FALSE(decode_profile(changed)) << at;
  }
}

TEST(Profile, numbersThatMakeNoSenseAreRefusedThoughTheSumIsRight) {
  const auto with_sum = [](Bytes bytes) {
    const std::uint64_t sum = fingerprint(bytes);
    const auto raw = std::as_bytes(std::span(&sum, 1));
    bytes.insert(bytes.end(), raw.begin(), raw.end());
    return bytes;
  };
  Bytes empty = encode_profile({});
  empty.resize(empty.size() - sizeof(std::uint64_t));
  ASSERT_TRUE(decode_profile(with_sum(empty)));
  Bytes many = empty;
  many[many.size() - 4] = std::byte{65};  // processes
  EXPECT_FALSE(decode_profile(with_sum(many)));
  Bytes longer = empty;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(decode_profile(with_sum(longer)));
  Bytes one = encode_profile(one_thread());
  one.resize(one.size() - sizeof(std::uint64_t));
  ASSERT_TRUE(decode_profile(with_sum(one)));
  one[one.size() - 1] = std::byte{0x7f};  // faults of its thread
  EXPECT_FALSE(decode_profile(with_sum(one)));
}

}  // namespace
}  // namespace comex
