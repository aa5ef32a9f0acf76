// Leases: a client that dies or falls silent loses its frames; one that was only slow finds out and harms nobody.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <sstream>

#include "support/client_process.h"
#include "support/heartbeat.h"
#include "support/node.h"
#include "support/own_address.h"
#include "support/pages.h"
#include "support/raw_client.h"
#include "wire/auth.h"

namespace comex::test {
namespace {

ServerConfig with_lease(Millis lease) {
  auto config = TestNode::config();
  config.lease = lease;
  return config;
}

class Lease : public testing::TestWithParam<Over> {
 protected:
  // RDMA is in an emulated machine here: to come in takes as long as others' leases, and on a busy host everything may
  // stand still for two seconds.
  static Millis lasting(Millis lease) { return GetParam() == Over::rdma ? 10 * lease : lease; }
  // On shared memory the kernel tells the node; over the network only the lease does.
  static Millis until_dead() { return GetParam() == Over::shm ? Millis(3'600'000) : lasting(Millis(400)); }
};

INSTANTIATE_TEST_SUITE_P(Over, Lease, testing::ValuesIn(media()), testing::PrintToStringParamName());

// --- clients that die ---

TEST_P(Lease, a_killed_client_loses_its_frames) {
  TestNode node(GetParam(), with_lease(until_dead()));
  auto client = start_client(node, GetParam());
  ASSERT_FALSE(parse_extents(client.ask("grant 2000 0")).empty());
  EXPECT_LT(node.free_frames(), node.frames());
  client.kill();
  EXPECT_TRUE(node.all_free_soon());
  EXPECT_EQ(node.clients(), 0U);
}

TEST_P(Lease, a_client_killed_in_the_middle_of_writing_loses_its_frames) {
  TestNode node(GetParam(), with_lease(until_dead()));
  const auto bystander = node.connect(GetParam());
  const Heartbeat beating(*bystander);
  const Extent own = granted_extent(*bystander, 64);
  Pages pages(64, 81);
  ASSERT_EQ(write(*bystander, own, pages), Errc::ok);
  for (int round = 0; round < 3; ++round) {
    auto client = start_client(node, GetParam());
    const auto frames = parse_extents(client.ask("grant 256 8"));
    ASSERT_EQ(frames.size(), 1U);
    ASSERT_EQ(client.ask("churn " + words(frames[0]) + " 1000"), "churning");
    client.kill();
    EXPECT_TRUE(wait_until([&] { return node.clients() == 1; }));
  }
  pages.clear();
  ASSERT_EQ(read(*bystander, own, pages), Errc::ok);
  EXPECT_TRUE(pages.are(81));
  EXPECT_TRUE(wait_until([&] { return node.free_frames() >= node.frames() - 512; }));
}

// Over the network a client may be cut off and come back: not before the lease has ended are its frames gone.
TEST_P(Lease, is_kept_by_beats_and_by_pages_alike) {
  const Millis lease = lasting(Millis(600));
  TestNode node(GetParam(), with_lease(lease));
  const auto link = node.connect(GetParam());
  const Extent frames = granted_extent(*link, 8);
  Pages pages(8, 82);
  ASSERT_EQ(write(*link, frames, pages), Errc::ok);
  const Deadline three_leases(3 * lease);
  while (!three_leases.passed()) {
    if (one_sided(GetParam())) {
      ASSERT_TRUE(link->beat());
    } else {
      ASSERT_EQ(read(*link, frames, pages), Errc::ok);  // any request renews it
    }
    std::this_thread::sleep_for(Millis(20));
  }
  ASSERT_EQ(read(*link, frames, pages), Errc::ok);
  EXPECT_TRUE(pages.are(82));
  EXPECT_EQ(node.clients(), 1U);
}

TEST_P(Lease, an_heir_that_nobody_claims_expires) {
  TestNode node(GetParam(), with_lease(lasting(Millis(400))));
  const auto parent = node.connect(GetParam());
  const Heartbeat beating(*parent);
  const Extent frames = granted_extent(*parent, 512);
  const auto heir = parent->share();
  ASSERT_TRUE(heir);
  ASSERT_TRUE(parent->give_back({&frames, 1}));
  EXPECT_TRUE(wait_until([&] { return node.clients() == 1; }));
  EXPECT_TRUE(node.all_free_soon());
  auto options = node.options(GetParam());
  options.resume = *heir;
  const auto late = comex::connect(node.url(GetParam()), options);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, Errc::fenced);
}

// --- clients that were only slow ---

// "ended WHY ROUNDS WRONG"
struct Churned {
  std::string why;
  std::uint64_t rounds = 0;
  std::uint64_t wrong = 0;
};
Churned parse_churned(const std::string& line) {
  std::istringstream stream(line);
  Churned churned;
  std::string ended;
  stream >> ended >> churned.why >> churned.rounds >> churned.wrong;
  EXPECT_EQ(ended, "ended") << line;
  return churned;
}

// Stopped in the middle of moving pages, past its lease; its frames go to another; it wakes up and goes on where it
// was.
TEST_P(Lease, a_stopped_client_finds_itself_fenced_and_harms_nobody) {
  TestNode node(GetParam(), with_lease(lasting(Millis(400))));
  auto slow = start_client(node, GetParam());
  const auto frames = parse_extents(slow.ask("grant 512 9"));
  ASSERT_EQ(frames.size(), 1U);
  ASSERT_EQ(slow.ask("churn " + words(frames[0]) + " 1000"), "churning");
  ASSERT_TRUE(slow.stop());
  ASSERT_TRUE(wait_until([&] { return node.clients() == 0; }));

  const auto owner = node.connect(GetParam());
  const Heartbeat beating(*owner);
  const auto taken = granted(*owner, node.frames(), 9);
  Pages pages(512);
  for (const auto& extent : taken) {
    ASSERT_EQ(read(*owner, extent, pages), Errc::ok);
    EXPECT_TRUE(pages.are_zeros());
    pages.fill(extent.first.value + 1);
    ASSERT_EQ(write(*owner, extent, pages), Errc::ok);
  }
  slow.go_on();
  const auto churned = parse_churned(slow.read_line().value_or("nothing"));
  EXPECT_EQ(churned.wrong, 0U) << "a read that was said to be good was not what had been written";
  if (GetParam() == Over::shm) {
    EXPECT_EQ(churned.why, "fenced");
    EXPECT_EQ(slow.ask("broken"), "fenced");
  }
  EXPECT_NE(slow.ask("read " + words(frames[0]) + " 1"), "ok same");
  EXPECT_EQ(slow.ask("again"), "fenced");
  for (const auto& extent : taken) {
    ASSERT_EQ(read(*owner, extent, pages), Errc::ok);
    EXPECT_TRUE(pages.are(extent.first.value + 1)) << "frames from " << extent.first.value;
  }
}

// Over the network, too, the answer to a client that comes back on its old connection should be why it has no frames,
// not merely that the connection is gone.
TEST_P(Lease, a_slow_client_is_told_that_it_was_fenced) {
  TestNode node(GetParam(), with_lease(lasting(Millis(300))));
  const auto link = node.connect(GetParam());
  const Extent frames = granted_extent(*link, 8);
  ASSERT_TRUE(wait_until([&] { return node.clients() == 0; }));
  Pages pages(8);
  const Errc result = read(*link, frames, pages);
  EXPECT_TRUE(result == Errc::fenced || (GetParam() != Over::shm && result == Errc::disconnected)) << to_string(result);
  auto options = node.options(GetParam());
  options.resume = link->session();
  const auto again = comex::connect(node.url(GetParam()), options);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, Errc::fenced);
}

// --- a node that was slow itself ---

// The node was stopped (a paused virtual machine, a debugger, swapping), its clients were not: their beats are waiting
// in its sockets when it wakes up. It must read them before it takes anybody's memory.
TEST_P(Lease, a_node_that_was_stopped_does_not_fence_clients_that_kept_beating) {
  if (GetParam() == Over::tls || GetParam() == Over::rdma) GTEST_SKIP() << "as tcp";
  constexpr Millis kLease{500};
  TestFolder folder;
  auto node = start_node({"--listen", own_listen(), "--socket", folder.path("node.sock"), "--lease", "500ms"},
                         folder.path("."));
  LinkOptions options;
  options.connect_timeout = options.control_timeout = options.transfer_timeout = kPatience;
  auto link = comex::connect(GetParam() == Over::shm ? *node.shm : *node.tcp, options);
  ASSERT_TRUE(link) << link.error().message;
  const Extent frames = granted_extent(**link, 8);
  Pages pages(8, 83);
  ASSERT_EQ(write(**link, frames, pages), Errc::ok);

  // One more, that does not beat: being away must not excuse the silent for ever.
  auto silent = comex::connect(GetParam() == Over::shm ? *node.shm : *node.tcp, options);
  ASSERT_TRUE(silent) << silent.error().message;

  const Heartbeat beating(**link);
  ASSERT_TRUE(node.process.stop());
  const Deadline two_leases(2 * kLease);
  ASSERT_TRUE(wait_until([&] { return two_leases.passed(); }));
  node.process.go_on();
  EXPECT_TRUE((*link)->beat()) << to_string((*link)->broken());
  EXPECT_EQ(read(**link, frames, pages), Errc::ok) << "the client lost its memory because the node had slept";
  EXPECT_TRUE(pages.are(83));
  EXPECT_TRUE(wait_until([&] {
    const auto status = (*link)->status();
    return status && status->client_count == 1;
  })) << "the silent one was not ended";
}

// --- families on shared memory ---

// Within a family slabs are shared, so a parent that was fenced in the middle of a copy still maps frames that its
// heir may be granted next. What the parent writes late must not land there.
TEST(LeaseOfFamily, a_fenced_parent_can_not_write_frames_its_heir_was_granted_since) {
  TestNode node(Over::tcp, with_lease(Millis(400)));
  auto parent = std::make_unique<RawSession>(node, Over::shm);
  const auto kept = parent->grant(8);
  ASSERT_EQ(kept.size(), 1U);
  const auto reply = parent->control->call(wire::Type::share);
  ASSERT_TRUE(reply && reply->status() == Errc::ok);
  const auto share = wire::decode<wire::ShareReply>(reply->body);
  ASSERT_TRUE(share);
  const auto heir = node.resume(
      Over::shm, Session{share->heir, wire::heir_key(parent->session.key, *share), parent->session.boot_id});
  const Heartbeat beating(*heir);
  ASSERT_TRUE(heir->reach(kept));
  // Frames of the parent alone, in the same slab, which it is about to write when it is stopped.
  const auto own = parent->grant(64, 6);
  ASSERT_EQ(own.size(), 1U);
  const std::uint32_t slab = own[0].first.value / 512;
  ASSERT_EQ(slab, kept[0].first.value / 512);
  parent->control->fds.clear();
  ASSERT_TRUE(parent->control->call(wire::Type::map, wire::encode(wire::Map{{slab}})));
  void* const memory =
      mmap(nullptr, 512 * kPageSize, PROT_READ | PROT_WRITE, MAP_SHARED, parent->control->fds.at(0).get(), 0);
  ASSERT_NE(memory, MAP_FAILED);
  ASSERT_TRUE(wait_until([&] { return node.clients() == 1; })) << "the parent is not fenced";

  const auto granted_since = heir->grant(64, 6);
  ASSERT_TRUE(granted_since) << granted_since.error().message;
  const Extent theirs = granted_since->extents.at(0);
  Pages pages(64, 84);
  ASSERT_EQ(write(*heir, theirs, pages), Errc::ok);
  std::memset(static_cast<std::byte*>(memory) + (own[0].first.value % 512) * kPageSize, 0xee, 64 * kPageSize);
  ASSERT_EQ(read(*heir, theirs, pages), Errc::ok);
  EXPECT_TRUE(pages.are(84)) << "a late write of the fenced parent landed in a frame of its heir";
  munmap(memory, 512 * kPageSize);
}

}  // namespace
}  // namespace comex::test
