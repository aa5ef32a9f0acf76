// What no honest process says to its keeper, or only late, and what becomes of the others.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cstring>
#include <optional>
#include <random>

#include "base/wait_ready.h"
#include "run/keeper_wire.h"
#include "support/kept.h"

namespace comex::test {
namespace {

namespace kw = keeper_wire;

// A process that says bytes.
class Raw {
 public:
  explicit Raw(const Kept& kept) { EXPECT_EQ(connect_keeper(kept.name(), &socket_), Errc::ok); }

  void say(std::span<const std::byte> bytes) const {
    (void)::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  template <typename Body>
  void say(kw::Type type, const Body& body, const std::vector<comex::Run>& runs = {}) const {
    const kw::Head head{type};
    std::vector<std::byte> bytes;
    for (const auto part :
         {std::as_bytes(std::span(&head, 1)), std::as_bytes(std::span(&body, 1)), std::as_bytes(std::span(runs))}) {
      bytes.insert(bytes.end(), part.begin(), part.end());
    }
    say(bytes);
  }
  void hello() const { say(kw::Type::hello, kw::Hello{}); }
  // The next message of this type; what comes before it is thrown away. False if the keeper closed the connection.
  bool hear(kw::Type type, std::vector<std::byte>* message = nullptr) const {
    for (;;) {
      std::vector<std::byte> bytes(kw::kMaxMessage);
      if (!wait_ready(socket_.get(), POLLIN, Deadline(kPatience))) return false;
      const ssize_t got = ::recv(socket_.get(), bytes.data(), bytes.size(), 0);
      if (got <= 0) return false;
      kw::Head head;
      std::memcpy(&head, bytes.data(), sizeof head);
      bytes.resize(static_cast<std::size_t>(got));
      if (message != nullptr) *message = bytes;
      if (head.type == type) return true;
    }
  }
  // The keeper says why, and closes.
  [[nodiscard]] bool is_sent_away() const { return hear(kw::Type::closing) && !hear(kw::Type::closing); }

 private:
  Fd socket_;
};

class KeeperAbuse : public testing::TestWithParam<Over> {
 protected:
  KeeperAbuse() : kept_(GetParam()), bystander_(kept_.outpost()), runs_(take_exactly(*bystander_, 200)) {
    EXPECT_EQ(write_seed(*bystander_, runs_, 1), Errc::ok);
  }
  ~KeeperAbuse() override {
    EXPECT_TRUE(has_seed(*bystander_, runs_, 1));
    EXPECT_FALSE(take_exactly(*bystander_, 300).empty());
  }
  Kept kept_;
  OutpostOwner bystander_;
  std::vector<comex::Run> runs_;
};
INSTANTIATE_TEST_SUITE_P(Over, KeeperAbuse, testing::Values(Over::shm, Over::tcp),
                         [](const auto& over) { return over_name(over.param); });

TEST_P(KeeperAbuse, words_before_hello) {
  const Raw raw(kept_);
  raw.say(kw::Type::want, kw::Want{10});
  EXPECT_TRUE(raw.is_sent_away());
}

TEST_P(KeeperAbuse, another_version) {
  const Raw raw(kept_);
  raw.say(kw::Type::hello, kw::Hello{kw::kVersion + 1, 0});
  EXPECT_TRUE(raw.is_sent_away());
}

TEST_P(KeeperAbuse, hello_twice) {
  const Raw raw(kept_);
  raw.hello();
  raw.hello();
  EXPECT_TRUE(raw.is_sent_away());
}

TEST_P(KeeperAbuse, wants_beyond_reason) {
  for (const std::uint32_t frames : {std::uint32_t{0}, kw::kMaxWant + 1, UINT32_MAX}) {
    const Raw raw(kept_);
    raw.hello();
    raw.say(kw::Type::want, kw::Want{frames});
    EXPECT_TRUE(raw.is_sent_away()) << frames;
  }
}

TEST_P(KeeperAbuse, gives_back_what_is_not_its_own) {
  const comex::Run others = runs_[0];
  for (const comex::Run& run :
       {others, comex::Run{NodeId{4000}, FrameNo{0}, 1}, comex::Run{others.node, FrameNo{UINT32_MAX}, 2},
        comex::Run{others.node, others.first, 0}, comex::Run{others.node, FrameNo{0}, UINT32_MAX}}) {
    const Raw raw(kept_);
    raw.hello();
    raw.say(kw::Type::give_back, kw::Runs{1}, {run});
    EXPECT_TRUE(raw.is_sent_away());
  }
}

TEST_P(KeeperAbuse, gives_back_twice) {
  const Raw raw(kept_);
  raw.hello();
  raw.say(kw::Type::want, kw::Want{1});
  std::vector<std::byte> granted;
  ASSERT_TRUE(raw.hear(kw::Type::grant, &granted));
  ASSERT_EQ(kw::run_count(granted), 1U);
  const comex::Run run = kw::run_at(granted, 0);
  raw.say(kw::Type::give_back, kw::Runs{2}, {run, run});
  EXPECT_TRUE(raw.is_sent_away());
}

TEST_P(KeeperAbuse, counts_that_lie) {
  for (const std::uint32_t count : {0U, 2U, 5000U, UINT32_MAX}) {
    const Raw raw(kept_);
    raw.hello();
    raw.say(kw::Type::give_back, kw::Runs{count}, {runs_[0]});
    EXPECT_TRUE(raw.is_sent_away()) << count;
  }
}

TEST_P(KeeperAbuse, broken_lanes_to_nowhere) {
  for (const std::uint16_t node : {std::uint16_t{77}, std::uint16_t{UINT16_MAX}}) {
    const Raw raw(kept_);
    raw.hello();
    raw.say(kw::Type::lanes, kw::NodeRef{NodeId{node}, 0});
    EXPECT_TRUE(raw.is_sent_away());
  }
}

TEST_P(KeeperAbuse, a_process_that_reads_nothing) {
  const Raw raw(kept_);
  raw.hello();
  for (int i = 0; i < 200; ++i) raw.say(kw::Type::want, kw::Want{1});
  EXPECT_TRUE(has_seed(*bystander_, runs_, 1));
}

TEST_P(KeeperAbuse, noise) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 200; ++i) {
    const Raw raw(kept_);
    if (random() % 2 == 0) raw.hello();
    for (std::uint64_t messages = random() % 4 + 1; messages > 0; --messages) {
      std::vector<std::byte> bytes(random() % 3 == 0 ? random() % 70'000 + 1 : random() % 64 + 1);
      for (auto& byte : bytes) byte = static_cast<std::byte>(random());
      const kw::Head head{static_cast<kw::Type>(random() % 8)};
      if (bytes.size() >= sizeof head) std::memcpy(bytes.data(), &head, sizeof head);
      raw.say(bytes);
    }
  }
  EXPECT_TRUE(kept_.processes_soon(1));
}

// A node restarts while nobody has a frame there: the next session has the same id. A process that sees the end of the
// old one by itself says so when the keeper is further already.
TEST(KeeperLateWords, broken_lanes_of_a_session_that_ended_without_a_frame) {
  for (const Over over : {Over::shm, Over::tcp}) {
    Kept kept(over);
    const Raw raw(kept);
    raw.hello();
    raw.say(kw::Type::want, kw::Want{1});
    std::vector<std::byte> granted;
    ASSERT_TRUE(raw.hear(kw::Type::grant, &granted));
    raw.say(kw::Type::give_back, kw::Runs{1}, {kw::run_at(granted, 0)});
    ASSERT_TRUE(wait_until([&] { return kept.in_use_at(0) == 0; }));
    const NodeId node = kept.pool().status()[0].node;
    const auto session = [&] {
      const auto link = kept.pool().enter(node);
      return link ? std::optional(link->session().boot_id) : std::nullopt;
    };
    const auto before = session();
    kept.stop_node();
    kept.start_node();
    ASSERT_TRUE(wait_until([&] { return session() && session() != before; }));
    // Who gets frames there has heard of the new session, and so has the keeper.
    const auto other = kept.outpost();
    ASSERT_FALSE(take_exactly(*other, 1).empty());
    ASSERT_EQ(kept.pool().status()[0].node, node);
    raw.say(kw::Type::lanes, kw::NodeRef{node, 0});
    raw.say(kw::Type::want, kw::Want{1});
    EXPECT_TRUE(raw.hear(kw::Type::grant)) << over;
  }
}

}  // namespace
}  // namespace comex::test
