#include "bench/paging/comex_run.h"

#include <gtest/gtest.h>

namespace comex::bench {
namespace {

// echo in place of comex: shows the command line.
TEST(ComexRun, run_putsThePrefixBeforeTheCommand) {
  const Expected<TempFolder> folder = TempFolder::create();
  ASSERT_TRUE(folder);
  ComexRun system(kPagingShm, {"echo", "run", "--local", "512M"}, folder->path() + "/log");
  const Expected<ProgramResult> output = system.run({"program", "--flag"});
  ASSERT_TRUE(output) << output.error().message;
  EXPECT_EQ(output->output, "run --local 512M -- program --flag\n");
}

TEST(ComexRun, run_failureIsAnErrorWithTheReason) {
  const Expected<TempFolder> folder = TempFolder::create();
  ASSERT_TRUE(folder);
  ComexRun system(kPagingTcp, {"no-such-command"}, folder->path() + "/log");
  const Expected<ProgramResult> output = system.run({"program"});
  ASSERT_FALSE(output);
  EXPECT_EQ(output.error().message, "it cannot be started");
}

TEST(ComexRun, comex_over_isNamedByHowTheNodeIsReached) {
  const auto name = [](const char* url) { return comex_over(parse_url(url).value(), 1 << 20, "", "")->name(); };
  EXPECT_EQ(name("unix:///run/node"), kPagingShm);
  EXPECT_EQ(name("tcp://node:7171"), kPagingTcp);
  EXPECT_EQ(name("rdma://node:7171"), kPagingRdma);
}

}  // namespace
}  // namespace comex::bench
