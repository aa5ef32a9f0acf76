#include "pool/link_gate.h"

#include <gtest/gtest.h>

#include <array>
#include <thread>
#include <vector>

#include "pool/fake_link_test.h"

namespace comex {
namespace {

using testing_support::eventually;
using testing_support::FakeNode;

constexpr NodeId kSession{3};

class LinkGateTest : public ::testing::Test {
 protected:
  std::unique_ptr<Link> link() { return node_.connect(Url{}, LinkOptions{}).value(); }
  FakeNode node_{1024};
  LinkGate gate_;
};

TEST_F(LinkGateTest, enter_closed) {
  EXPECT_FALSE(gate_.enter(kSession));
}

TEST_F(LinkGateTest, enter_onlyForItsSession) {
  gate_.open(kSession, link());
  EXPECT_TRUE(gate_.enter(kSession));
  EXPECT_FALSE(gate_.enter(NodeId{4}));
  gate_.close(Errc::disconnected);
  EXPECT_FALSE(gate_.enter(kSession));
  gate_.close(Errc::disconnected);  // again: nothing
}

TEST_F(LinkGateTest, close_destroysTheLink) {
  gate_.open(kSession, link());
  EXPECT_EQ(node_.links(), 1U);
  gate_.close(Errc::disconnected);
  EXPECT_EQ(node_.links(), 0U);
}

TEST_F(LinkGateTest, close_waitsForThoseInside) {
  gate_.open(kSession, link());
  std::atomic<bool> closed{false};
  std::thread closer;
  {
    const auto pass = gate_.enter(kSession);
    closer = std::thread([&] {
      gate_.close(Errc::timeout);
      closed = true;
    });
    EXPECT_TRUE(eventually([&] { return pass->broken() == Errc::timeout; })) << "severed while we are inside";
    EXPECT_FALSE(closed);
    EXPECT_FALSE(gate_.enter(kSession)) << "nobody comes in any more";
  }
  closer.join();
  EXPECT_TRUE(closed);
}

TEST_F(LinkGateTest, close_completesWhatWasSubmittedAndNotWaitedFor) {
  gate_.open(kSession, link());
  node_.hold_transfers(true);
  std::vector<std::byte> page(kPageSize);
  const Segment segment{FrameNo{0}, 1, page.data()};
  Transfer transfer(Direction::read, {&segment, 1});
  gate_.enter(kSession)->submit(transfer);
  EXPECT_FALSE(transfer.done());
  gate_.close(Errc::disconnected);
  ASSERT_TRUE(transfer.done());
  EXPECT_EQ(transfer.result(), Errc::disconnected);
}

// Readers hammer the gate while links come and go: address and thread sanitizers watch.
TEST_F(LinkGateTest, replace_underLoad) {
  std::atomic<bool> stop{false};
  std::atomic<int> entered{0};
  std::vector<std::thread> readers;
  for (int t = 0; t < 3; ++t) {
    readers.emplace_back([&] {
      std::vector<std::byte> page(kPageSize);
      const Segment segment{FrameNo{0}, 1, page.data()};
      while (!stop) {
        Transfer transfer(Direction::read, {&segment, 1});
        if (const auto pass = gate_.enter(kSession)) {
          pass->move(transfer);
          EXPECT_TRUE(transfer.done());
          ++entered;
        }
      }
    });
  }
  for (int i = 0; i < 200; ++i) {
    gate_.open(kSession, link());
    const int before = entered;
    EXPECT_TRUE(eventually([&] { return entered > before; }));
    gate_.close(Errc::disconnected);
  }
  stop = true;
  for (auto& reader : readers) reader.join();
}

}  // namespace
}  // namespace comex
