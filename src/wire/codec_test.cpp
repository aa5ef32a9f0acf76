#include "wire/codec.h"

#include <gtest/gtest.h>

namespace comex::wire {
namespace {

TEST(Codec, reads_back_what_was_written) {
  Writer w;
  w.put(std::uint8_t{7}).put(std::uint32_t{0xdeadbeef}).put(std::string_view("name")).put(std::uint64_t{1} << 63);
  const Bytes bytes = w.take();
  Reader r(bytes);
  EXPECT_EQ(r.get<std::uint8_t>(), 7);
  EXPECT_EQ(r.get<std::uint32_t>(), 0xdeadbeef);
  EXPECT_EQ(r.get_string(), "name");
  EXPECT_EQ(r.get<std::uint64_t>(), std::uint64_t{1} << 63);
  EXPECT_TRUE(r.finished());
}

TEST(Codec, is_little_endian) {
  Writer w;
  w.put(std::uint16_t{0x0102});
  EXPECT_EQ(w.take(), (Bytes{std::byte{2}, std::byte{1}}));
}

TEST(Codec, short_input_reads_as_zero_and_is_not_ok) {
  const Bytes bytes(3, std::byte{0xff});
  Reader r(bytes);
  EXPECT_EQ(r.get<std::uint32_t>(), 0U);
  EXPECT_FALSE(r.ok());
  EXPECT_EQ(r.get<std::uint8_t>(), 0U) << "after a short read nothing is read any more";
}

TEST(Codec, string_longer_than_input_is_refused_without_allocating_its_length) {
  Writer w;
  w.put(std::uint16_t{65535}).put(std::uint8_t{1});
  const Bytes bytes = w.take();
  Reader r(bytes);
  EXPECT_EQ(r.get_string(), "");
  EXPECT_FALSE(r.ok());
}

TEST(Codec, left_over_bytes_are_not_finished) {
  const Bytes bytes(5);
  Reader r(bytes);
  r.get<std::uint32_t>();
  EXPECT_TRUE(r.ok());
  EXPECT_FALSE(r.finished());
}

}  // namespace
}  // namespace comex::wire
