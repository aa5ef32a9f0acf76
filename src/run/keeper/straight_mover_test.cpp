#include "run/keeper/straight_mover.h"

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace comex {
namespace {

using Outcome = StraightMover::Outcome;

// What both nodes answer, and how often they were asked.
struct LinkScript {
  std::uint16_t version = wire::kVersion;
  std::optional<wire::Address> address = wire::Address{};
  Errc ticket = Errc::ok;
  Errc pull = Errc::ok;
  Errc pulled = Errc::ok;
  std::vector<wire::PullState> states;  // one after the other; the last again and again
  std::mutex mutex;                     // guards all below
  int tickets = 0;
  std::optional<wire::Pull> asked;

  Expected<wire::Bytes> serve(wire::Type type, wire::ByteView body) {
    const std::lock_guard lock(mutex);
    const auto refuse = [](Errc code) { return Error{code, "no"}; };
    switch (type) {
      case wire::Type::grant: return wire::encode(wire::GrantReply{{Extent{FrameNo{0}, 256}}, {}});
      case wire::Type::beat: return wire::encode(wire::NodeLoad{});
      case wire::Type::ticket:
        ++tickets;
        if (ticket != Errc::ok) return refuse(ticket);
        return wire::encode(wire::TicketReply{7, {}});
      case wire::Type::pull:
        asked = wire::decode<wire::Pull>(body);
        if (pull != Errc::ok) return refuse(pull);
        return wire::Bytes{};
      case wire::Type::pulled: {
        if (pulled != Errc::ok) return refuse(pulled);
        const auto state = states.front();
        if (states.size() > 1) states.erase(states.begin());
        return wire::encode(wire::PulledReply{state});
      }
      default: return wire::Bytes{};
    }
  }
};

class ScriptedLink final : public Link {
 public:
  explicit ScriptedLink(LinkScript& script) : script_(script) {
    node_ = NodeInfo{NodeId{1}, 4096, 9, Millis(10'000), script.version, script.address};
  }
  void submit(Transfer& transfer) noexcept override { transfer.finish(Errc::ok); }
  void progress() noexcept override {}
  Errc wait(Transfer&) noexcept override { return Errc::ok; }
  [[nodiscard]] Errc broken() const noexcept override { return Errc::ok; }
  void sever(Errc) noexcept override {}
  Expected<void> reach(std::span<const Extent>) override { return {}; }
  void forget(std::span<const Extent>) noexcept override {}
  Expected<std::vector<std::byte>> call(wire::Type type, std::span<const std::byte> body) override {
    return script_.serve(type, body);
  }

 private:
  LinkScript& script_;
};

class StraightMoverTest : public testing::Test {
 protected:
  StraightMover::Outcome move() {
    if (!pool_) {
      PoolConfig config;
      config.nodes = *parse_urls("tcp://127.0.0.1:1,tcp://127.0.0.1:2");
      auto pool = Pool::open(std::move(config), [this](const Url&, const LinkOptions&) {
        return Expected<std::unique_ptr<Link>>(std::make_unique<ScriptedLink>(script_));
      });
      pool_ = *std::move(pool);
      for (const MemberStatus& node : pool_->status()) nodes_.push_back(node.node);
      for (const NodeId node : nodes_) {
        for (const Deadline deadline(Millis(20'000)); !pool_->enter(node) && !deadline.passed();) {
          std::this_thread::sleep_for(Millis(1));
        }
      }
      mover_.emplace(*pool_, StraightMover::Config{.patience = Millis(50), .try_again = try_again_});
    }
    return mover_->move(comex::Run{nodes_[0], FrameNo{64}, 64}, comex::Run{nodes_[1], FrameNo{128}, 64}).outcome;
  }

  LinkScript script_;
  Millis try_again_{600'000};
  std::unique_ptr<Pool> pool_;
  std::vector<NodeId> nodes_;
  std::optional<StraightMover> mover_;
};

TEST_F(StraightMoverTest, waits_until_it_has_landed) {
  script_.states = {wire::PullState::under_way, wire::PullState::under_way, wire::PullState::landed};
  EXPECT_EQ(move(), Outcome::landed);
  ASSERT_TRUE(script_.asked);
  EXPECT_EQ(script_.asked->source, (std::vector{Extent{FrameNo{64}, 64}}));
  EXPECT_EQ(script_.asked->target, (std::vector{Extent{FrameNo{128}, 64}}));
}

TEST_F(StraightMoverTest, a_pair_that_could_not_is_not_asked_again) {
  script_.states = {wire::PullState::failed};
  EXPECT_EQ(move(), Outcome::not_landed);
  EXPECT_EQ(move(), Outcome::not_landed);
  EXPECT_EQ(script_.tickets, 1);
}

TEST_F(StraightMoverTest, for_a_while) {
  try_again_ = Millis(0);
  script_.states = {wire::PullState::failed, wire::PullState::landed};
  EXPECT_EQ(move(), Outcome::not_landed);
  EXPECT_EQ(move(), Outcome::landed);
}

TEST_F(StraightMoverTest, one_that_is_busy_is_asked_the_next_time) {
  script_.states = {wire::PullState::landed};
  script_.pull = Errc::busy;
  EXPECT_EQ(move(), Outcome::not_landed);
  script_.pull = Errc::ok;
  script_.ticket = Errc::busy;
  EXPECT_EQ(move(), Outcome::not_landed);
  script_.ticket = Errc::ok;
  EXPECT_EQ(move(), Outcome::landed);
}

// Frames that a node may still write are told apart from those that it will not.
TEST_F(StraightMoverTest, what_does_not_end_is_unknown) {
  script_.states = {wire::PullState::under_way};
  EXPECT_EQ(move(), Outcome::unknown);
}

TEST_F(StraightMoverTest, without_an_answer_it_is_unknown_whether_it_has_begun) {
  script_.pull = Errc::timeout;
  EXPECT_EQ(move(), Outcome::unknown);
}

TEST_F(StraightMoverTest, without_an_answer_it_is_unknown_whether_it_is_over) {
  script_.states = {wire::PullState::under_way};
  script_.pulled = Errc::disconnected;
  EXPECT_EQ(move(), Outcome::unknown);
}

TEST_F(StraightMoverTest, what_was_refused_has_not_begun) {
  script_.pull = Errc::denied;
  EXPECT_EQ(move(), Outcome::not_landed);
}

TEST_F(StraightMoverTest, older_nodes_are_not_asked) {
  script_.version = wire::kStraightVersion - 1;
  EXPECT_EQ(move(), Outcome::not_landed);
  EXPECT_EQ(script_.tickets, 0);
}

TEST_F(StraightMoverTest, nodes_without_an_address_are_not_asked) {
  script_.address.reset();
  EXPECT_EQ(move(), Outcome::not_landed);
  EXPECT_EQ(script_.tickets, 0);
}

}  // namespace
}  // namespace comex
