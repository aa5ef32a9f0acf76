// A program whose keeper was stopped for longer than the lease: its pages are gone, and it must not go on with others.
#include <gtest/gtest.h>
#include <signal.h>

#include "support/node.h"
#include "support/own_address.h"
#include "support/process.h"
#include "support/program.h"
#include "support/toucher.h"

#ifdef COMEX_RUN_LIBRARY

namespace comex::test {
namespace {

class RunZombies : public testing::TestWithParam<Over> {
 protected:
  TestFolder folder_;
};
INSTANTIATE_TEST_SUITE_P(Over, RunZombies, testing::Values(Over::shm, Over::tcp),
                         [](const auto& over) { return over_name(over.param); });

TEST_P(RunZombies, a_keeper_that_was_stopped_for_longer_than_its_lease) {
  auto node = start_node({"--listen", own_listen(), "--socket", folder_.path("node.sock"), "--lease", "1s"},
                         folder_.path("."), "128M");
  const Url url = GetParam() == Over::shm ? *node.shm : *node.tcp;
  Process program({COMEX_BINARY, "run", "--at-once", "--local", "16M", "--pool", url.text(), "--", "/usr/bin/python3",
                   folder_.file("toucher.py", kToucher), "48"},
                  folder_.path("."));
  ASSERT_EQ(program.read_line(), "filled") << program.errors();
  const pid_t keeper = keeper_of(run_variable(program.pid()));
  kill(keeper, SIGSTOP);
  // Over TCP the pages that it reads keep the session, too.
  if (GetParam() == Over::tcp) {
    ASSERT_TRUE(program.stop());
  }
  LinkOptions look;
  look.observe = true;
  EXPECT_TRUE(wait_until([&] {
    const auto link = comex::connect(*node.shm, look);
    const auto status = link ? (*link)->status() : Expected<wire::StatusReply>(link.error());
    return status && status->lent == 0;
  }));
  // Somebody else has its frames.
  const auto other = comex::connect(*node.shm, LinkOptions{});
  ASSERT_TRUE(other);
  (void)(*other)->grant(1U << 14, 0);
  kill(keeper, SIGCONT);
  program.go_on();
  EXPECT_EQ(program.wait(), 125) << program.errors();
  EXPECT_EQ(program.read_all(), "") << "it never got to say what it found";
}

}  // namespace
}  // namespace comex::test

#endif
