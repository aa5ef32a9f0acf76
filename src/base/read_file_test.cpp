#include "base/read_file.h"

#include <gtest/gtest.h>

#include <fstream>

namespace comex {
namespace {

TEST(ReadFile, all_of_it) {
  const std::string path = testing::TempDir() + "/read_file_test";
  const std::string text(10'000, 'x');
  std::ofstream(path) << text;
  EXPECT_EQ(read_file(path), text);
  std::remove(path.c_str());
  EXPECT_FALSE(read_file(path));
}

TEST(ReadFile, nothing_of_what_can_be_opened_and_not_read) {
  EXPECT_FALSE(read_file("/"));
  EXPECT_FALSE(read_file("/proc/self/mem"));
}

}  // namespace
}  // namespace comex
