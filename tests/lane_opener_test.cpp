// Lanes for processes are opened node by node: one that hangs delays nobody who needs another.
#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include <vector>

#include "fabric/socket.h"
#include "run/keeper/keeper_lanes.h"
#include "support/kept.h"
#include "support/own_address.h"

namespace comex::test {
namespace {

class LaneOpenerTest : public testing::Test {
 protected:
  // For lanes to the keeper's node, or to whoever is at this port, who says nothing.
  LaneOpener::Job job() {
    const NodeId node = kept_.pool().status()[0].node;
    const auto link = kept_.pool().enter(node);
    return {1, node, link->number(), kept_.pool().config().nodes[0], link->session(), 2, false};
  }
  LaneOpener::Job job_for(const TcpListener& silent) {
    LaneOpener::Job job = this->job();
    job.node = NodeId{99};
    job.url.port = silent.port;
    job.url.host = own_address();
    return job;
  }
  // Until so many more results are there.
  std::vector<LaneOpener::Result> results(LaneOpener& opener, std::size_t count) {
    std::vector<LaneOpener::Result> all;
    EXPECT_TRUE(wait_until([&] {
      for (auto& result : opener.results()) all.push_back(std::move(result));
      return all.size() >= count;
    }));
    return all;
  }

  Kept kept_{Over::tcp};
  const Fd wake_{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
};

TEST_F(LaneOpenerTest, a_node_that_hangs_delays_nobody_at_another) {
  auto silent = listen_tcp(own_listen());
  ASSERT_TRUE(silent);
  LaneOpener opener(kept_.pool(), wake_.get());
  for (int i = 0; i < 2; ++i) opener.open(job_for(*silent));
  for (int i = 0; i < 3; ++i) {
    opener.open(job());
    const auto opened = results(opener, 1);
    ASSERT_EQ(opened.size(), 1U) << i;
    EXPECT_EQ(opened[0].lanes.size(), 2U) << opened[0].error.message;
  }
  silent->socket.reset();  // which ends the connections that nobody has accepted
  const auto refused = results(opener, 2);
  ASSERT_EQ(refused.size(), 2U);
  for (const auto& result : refused) EXPECT_TRUE(result.lanes.empty());
}

TEST_F(LaneOpenerTest, several_for_one_node_in_turn) {
  LaneOpener opener(kept_.pool(), wake_.get());
  for (std::uint64_t process = 1; process <= 5; ++process) {
    auto its = job();
    its.process = process;
    opener.open(std::move(its));
  }
  const auto opened = results(opener, 5);
  ASSERT_EQ(opened.size(), 5U);
  for (std::size_t i = 0; i < opened.size(); ++i) EXPECT_EQ(opened[i].job.process, i + 1);
}

}  // namespace
}  // namespace comex::test
