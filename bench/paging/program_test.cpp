#include "bench/paging/program.h"

#include <gtest/gtest.h>

#include "bench/child.h"

namespace comex::bench {
namespace {

class ProgramTest : public ::testing::Test {
 protected:
  Expected<std::string> shell(const std::string& line, Millis limit = Millis(20'000)) {
    return run_program({"sh", "-c", line}, {folder_->path() + "/log", -1, limit});
  }
  Expected<TempFolder> folder_ = TempFolder::create();
};

TEST_F(ProgramTest, run_givesWhatItPrints) {
  const Expected<std::string> text = shell("echo one; echo two; echo three >&2");
  ASSERT_TRUE(text) << text.error().message;
  EXPECT_EQ(*text, "one\ntwo\n");
}

TEST_F(ProgramTest, run_failureSaysTheLastLine) {
  const Expected<std::string> text = shell("echo first >&2; echo page 7 is wrong >&2; exit 1");
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().message, "it ended with 1: page 7 is wrong");
}

TEST_F(ProgramTest, run_killedSaysBySignal) {
  const Expected<std::string> text = shell("kill -9 $$");
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().message, "it was ended by signal 9 (out of memory?)");
}

TEST_F(ProgramTest, run_endsWhatTakesTooLong) {
  const Expected<std::string> text = shell("exec sleep 60", Millis(200));
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().code, Errc::timeout);
}

}  // namespace
}  // namespace comex::bench
