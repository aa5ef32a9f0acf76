#include "run/syscalls/syscall_table.h"

#include <gtest/gtest.h>

#include <string_view>
#include <utility>

namespace comex::syscalls {
namespace {

// Every call of <asm/unistd_64.h>, as the build found it there.
constexpr std::pair<std::uint64_t, std::string_view> kInHeader[] = {
#include "syscall_numbers.inc"
};

Call call(std::uint64_t number, std::array<std::uint64_t, kArguments> arguments) {
  return {number, arguments};
}

TEST(SyscallTable, has_every_call_of_the_header_under_its_number) {
  for (const auto& [number, name] : kInHeader) EXPECT_EQ(entry(number).name, name) << number;
  EXPECT_GT(std::size(kInHeader), 350U);
}

TEST(SyscallTable, has_the_calls_up_to_linux_6_18) {
  for (std::uint64_t number = 0; number <= 336; ++number) EXPECT_NE(entry(number).kind, Class::unknown) << number;
  for (std::uint64_t number = 424; number <= 469; ++number) EXPECT_NE(entry(number).kind, Class::unknown) << number;
}

TEST(SyscallTable, unknown_numbers_have_an_entry_too) {
  for (const std::uint64_t number : {400UL, 471UL, 472UL, 512UL, 0x40000000UL, 0xFFFFFFFFUL})
    EXPECT_EQ(entry(number).kind, Class::unknown) << number;
  EXPECT_EQ(entry(0x100000001).name, std::string_view("write"));  // the kernel looks at the lower half only
}

TEST(SyscallTable, arguments_are_within_bounds) {
  for (std::uint64_t number = 0; number < kEntries; ++number)
    for (const Memory& memory : entry(number).memory) {
      EXPECT_LT(memory.argument, kArguments) << number;
      const bool is_offset = memory.extent == Extent::self_sized || memory.extent == Extent::counted;
      EXPECT_TRUE(is_offset || memory.by < kArguments) << number;
    }
}

TEST(SyscallTable, getters_may_be_repeated_and_consumers_may_not) {
  for (const auto number : {4, 63, 79, 99, 228, 332}) EXPECT_TRUE(entry(number).traits & Trait::repeatable) << number;
  for (const auto number : {0, 45, 47, 61, 70, 128, 243, 288})
    EXPECT_FALSE(entry(number).traits & Trait::repeatable) << entry(number).name;
}

TEST(ClassOf, follows_the_arguments_where_they_matter) {
  EXPECT_EQ(class_of(call(72, {0, 3})), Class::plain);          // F_GETFL
  EXPECT_EQ(class_of(call(72, {0, 0})), Class::descriptor);     // F_DUPFD
  EXPECT_EQ(class_of(call(72, {0, 1030})), Class::descriptor);  // F_DUPFD_CLOEXEC
  EXPECT_EQ(class_of(call(46, {0, 0, 0})), Class::plain);
  EXPECT_EQ(class_of(call(46, {0, 0, 0x4000000})), Class::lasting);     // sendmsg, MSG_ZEROCOPY
  EXPECT_EQ(class_of(call(44, {0, 0, 0, 0x4000000})), Class::lasting);  // sendto
  EXPECT_EQ(class_of(call(16, {0, 0x5413})), Class::plain);             // TIOCGWINSZ
  EXPECT_EQ(class_of(call(16, {0, 0xC028AA03})), Class::lasting);       // UFFDIO_COPY
  EXPECT_EQ(class_of(call(157, {15})), Class::plain);                   // PR_SET_NAME
  EXPECT_EQ(class_of(call(157, {59})), Class::lasting);                 // PR_SET_SYSCALL_USER_DISPATCH
  EXPECT_EQ(class_of(call(9, {})), Class::layout);
  EXPECT_EQ(class_of(call(435, {})), Class::task);
  EXPECT_EQ(class_of(call(13, {})), Class::signal);
  EXPECT_EQ(class_of(call(3, {})), Class::descriptor);
}

}  // namespace
}  // namespace comex::syscalls
