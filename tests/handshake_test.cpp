// Who comes in: the secret, the version, and nothing that was recorded.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <utility>

#include "support/node.h"
#include "support/pages.h"
#include "support/proxy.h"
#include "support/raw_client.h"
#include "wire/auth.h"

namespace comex::test {
namespace {

class Handshake : public testing::Test {
 protected:
  // One line, for people.
  static void expect_line(const Error& error, const std::string& about) {
    EXPECT_NE(error.message.find(about), std::string::npos) << error.message;
    EXPECT_EQ(error.message.find('\n'), std::string::npos) << error.message;
  }
  // A good client still gets in.
  void TearDown() override { EXPECT_TRUE(node_.connect(Over::tcp)->beat()); }

  TestNode node_;
};

TEST_F(Handshake, a_wrong_secret_is_denied) {
  auto options = node_.options(Over::tcp);
  for (const std::string& secret : {std::string("another secret for tests"), std::string(), std::string(4096, 'x'),
                                    std::string(TestNode::kSecret) + "x"}) {
    options.secret = secret;
    const auto link = comex::connect(node_.url(Over::tcp), options);
    ASSERT_FALSE(link);
    EXPECT_EQ(link.error().code, Errc::denied);
    expect_line(link.error(), "secret");
  }
  options.observe = true;
  EXPECT_EQ(comex::connect(node_.url(Over::tcp), options).error().code, Errc::denied);
  EXPECT_EQ(node_.clients(), 0U);
}

TEST_F(Handshake, a_client_refuses_a_node_that_does_not_know_the_secret) {
  auto config = TestNode::config();
  config.secret = "a different secret for tests";
  TestNode impostor(Over::tcp, config);
  const auto link = comex::connect(impostor.url(Over::tcp), node_.options(Over::tcp));
  ASSERT_FALSE(link);
  EXPECT_EQ(link.error().code, Errc::denied);
  // A node without a secret takes anybody: the client must not.
  config.secret.clear();
  TestNode open(Over::tcp, config);
  const auto to_open = comex::connect(open.url(Over::tcp), node_.options(Over::tcp));
  ASSERT_FALSE(to_open);
  EXPECT_EQ(to_open.error().code, Errc::denied);
}

// A node that repeats to the client what the client sent: the two proofs differ, so it proves nothing.
TEST_F(Handshake, a_reflected_proof_proves_nothing) {
  auto peer = RawPeer::dial(node_.url(Over::tcp));
  wire::Transcript said;
  said.hello = wire::encode(hello(wire::Purpose::begin));
  const auto greeted = peer.call(wire::Type::hello, said.hello);
  ASSERT_TRUE(greeted);
  said.hello_reply = greeted->body;
  const auto secret = std::as_bytes(std::span(std::string_view(TestNode::kSecret)));
  const auto as_node = wire::node_proof(secret, said, wire::ProofReply{});
  const auto answer = peer.call(wire::Type::proof, wire::encode(wire::Proof{as_node}));
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status(), Errc::denied);
}

TEST_F(Handshake, another_version_is_told_which_one_is_spoken) {
  for (const auto& [low, high] :
       {std::pair<std::uint16_t, std::uint16_t>{99, 99}, {wire::kVersion + 1, UINT16_MAX}, {0, 0}}) {
    auto peer = RawPeer::dial(node_.url(Over::tcp));
    auto said = hello(wire::Purpose::begin);
    said.version_min = low;
    said.version_max = high;
    const auto answer = peer.call(wire::Type::hello, wire::encode(said));
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->status(), Errc::version);
    EXPECT_NE(answer->text().find(fmt::format("protocol {}", wire::kVersion)), std::string::npos) << answer->text();
    EXPECT_TRUE(peer.closed());
  }
}

// A later version will say more in its hello than this one knows of. It must hear "version", not "malformed".
TEST_F(Handshake, a_longer_hello_of_a_later_version_is_told_so) {
  auto peer = RawPeer::dial(node_.url(Over::tcp));
  auto said = hello(wire::Purpose::begin);
  said.version_min = said.version_max = 99;
  auto body = wire::encode(said);
  body.resize(body.size() + 24);
  const auto answer = peer.call(wire::Type::hello, body);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status(), Errc::version) << answer->text();
}

TEST_F(Handshake, versions_that_include_this_one_are_fine) {
  auto peer = RawPeer::dial(node_.url(Over::tcp));
  auto said = hello(wire::Purpose::begin);
  said.version_min = 0;
  said.version_max = 99;
  const auto answer = shake(peer, said, std::as_bytes(std::span(std::string_view(TestNode::kSecret))));
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status(), Errc::ok);
}

// Everything a good client sent, byte for byte, on a new connection: control, lanes, and what came after.
TEST_F(Handshake, a_recorded_handshake_is_worth_nothing) {
  RecordingProxy proxy(node_.url(Over::tcp));
  {
    const auto link = comex::connect(proxy.url(), node_.options(Over::tcp));
    ASSERT_TRUE(link) << link.error().message;
    ASSERT_TRUE((*link)->grant(8, 3));
    (*link)->bye();
  }
  const auto recorded = proxy.stop();
  ASSERT_GE(recorded.size(), 2U) << "a control connection and lanes";
  ASSERT_TRUE(wait_until([&] { return node_.clients() == 0; }));
  for (const auto& bytes : recorded) {
    ASSERT_FALSE(bytes.empty());
    auto peer = RawPeer::dial(node_.url(Over::tcp));
    (void)peer.send(bytes);
    const auto greeted = peer.receive();
    ASSERT_TRUE(greeted) << "any hello is answered";
    const auto answer = peer.receive();
    if (answer) {
      EXPECT_TRUE(answer->status() == Errc::denied || answer->status() == Errc::fenced) << answer->text();
    }
    EXPECT_TRUE(peer.closed());
  }
  EXPECT_EQ(node_.clients(), 0U);
  EXPECT_EQ(node_.free_frames(), node_.frames());
}

TEST_F(Handshake, nothing_works_before_it) {
  for (auto type = static_cast<std::uint16_t>(wire::Type::proof); type <= static_cast<std::uint16_t>(wire::Type::write);
       ++type) {
    for (const Over over : {Over::tcp, Over::shm}) {
      auto peer = RawPeer::dial(node_.url(over));
      const auto answer = peer.call(static_cast<wire::Type>(type), wire::Bytes(32));
      if (answer) {
        EXPECT_EQ(answer->status(), Errc::invalid);
      }
      EXPECT_TRUE(peer.closed()) << "type " << type;
    }
  }
}

TEST_F(Handshake, a_second_hello_is_refused) {
  auto peer = RawPeer::dial(node_.url(Over::tcp));
  ASSERT_TRUE(peer.call(wire::Type::hello, wire::encode(hello(wire::Purpose::begin))));
  const auto answer = peer.call(wire::Type::hello, wire::encode(hello(wire::Purpose::begin)));
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status(), Errc::invalid);
  EXPECT_TRUE(peer.closed());
}

TEST_F(Handshake, lanes_do_not_exist_on_the_unix_socket) {
  RawSession shm(node_, Over::shm);
  auto peer = RawPeer::dial(node_.url(Over::shm));
  const auto own = shake(peer, hello(wire::Purpose::lane, shm.session.client), shm.session.key);
  ASSERT_TRUE(own);
  EXPECT_EQ(own->status(), Errc::invalid);
  RawSession tcp(node_, Over::tcp);
  auto other = RawPeer::dial(node_.url(Over::shm));
  const auto foreign = shake(other, hello(wire::Purpose::lane, tcp.session.client), tcp.session.key);
  ASSERT_TRUE(foreign);
  EXPECT_EQ(foreign->status(), Errc::denied);
  for (const std::uint64_t nobody : {std::uint64_t{0}, UINT64_MAX}) {
    auto third = RawPeer::dial(node_.url(Over::shm));
    const auto none = shake(third, hello(wire::Purpose::lane, ClientId{nobody}), {});
    ASSERT_TRUE(none);
    EXPECT_NE(none->status(), Errc::ok);
  }
}

// A client may have 256 lanes, no more, however fast it asks.
TEST_F(Handshake, lanes_are_limited) {
  RawSession session(node_, Over::tcp);
  std::vector<RawPeer> lanes;
  for (int i = 0; i < 256; ++i) lanes.push_back(session.join(wire::Purpose::lane));
  // A lane counts once it has been handed to its loop.
  ASSERT_TRUE(wait_until([&] {
    auto peer = RawPeer::dial(node_.url(Over::tcp));
    const auto answer = shake(peer, hello(wire::Purpose::lane, session.session.client), session.session.key);
    return answer && answer->status() == Errc::busy;
  }));
}

TEST_F(Handshake, an_observer_holds_nothing_and_can_only_look) {
  auto options = node_.options(Over::tcp);
  options.observe = true;
  for (const Over over : {Over::tcp, Over::shm}) {
    const auto link = comex::connect(node_.url(over), options);
    ASSERT_TRUE(link) << link.error().message;
    EXPECT_TRUE((*link)->status());
    EXPECT_TRUE((*link)->beat());
    EXPECT_EQ((*link)->grant(1, 0).error().code, Errc::denied);
    EXPECT_FALSE((*link)->share());
    Pages page(1);
    EXPECT_NE(read(**link, Extent{FrameNo{0}, 1}, page), Errc::ok);
  }
  EXPECT_EQ(node_.clients(), 0U);
}

TEST_F(Handshake, an_observer_has_nothing_to_return) {
  for (const Over over : {Over::tcp, Over::shm}) {
    auto options = node_.options(over);
    options.observe = true;
    const auto link = node_.connect(over, options);
    const Extent frame{FrameNo{0}, 1};
    EXPECT_FALSE(link->give_back({&frame, 1}));
  }
}

}  // namespace
}  // namespace comex::test
