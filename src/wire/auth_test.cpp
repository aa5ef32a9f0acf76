#include "wire/auth.h"

#include <gtest/gtest.h>
#include <openssl/hmac.h>

namespace comex::wire {
namespace {

Bytes bytes(std::string_view text) {
  const auto view = std::as_bytes(std::span(text));
  return {view.begin(), view.end()};
}

const Transcript kSaid{bytes("hello"), bytes("hello reply")};

TEST(Auth, proofs_depend_on_key_side_and_everything_said) {
  const auto proof = client_proof(bytes("secret"), kSaid);
  EXPECT_TRUE(same(proof, client_proof(bytes("secret"), kSaid)));
  EXPECT_FALSE(same(proof, client_proof(bytes("Secret"), kSaid)));
  EXPECT_FALSE(same(proof, node_proof(bytes("secret"), kSaid, {}))) << "a proof must not be reflected";
  EXPECT_FALSE(same(proof, client_proof(bytes("secret"), {bytes("hello"), bytes("other reply")})));
  EXPECT_FALSE(same(proof, client_proof(bytes("secret"), {bytes("hellohello"), bytes(" reply")})))
      << "where one part ends and the next begins counts";
}

TEST(Auth, proofs_are_what_others_call_HMAC_with_SHA_256) {
  Writer w;
  w.put("comex 1 client proof");
  for (const Bytes& part : {kSaid.hello, kSaid.hello_reply}) w.put(static_cast<std::uint32_t>(part.size())).put(part);
  const Bytes message = w.take();
  for (const std::size_t size : {0U, 1U, 32U, 63U, 64U, 65U, 200U}) {
    const Bytes key(size, std::byte{0xc5});
    Mac mac{};
    HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), reinterpret_cast<const unsigned char*>(message.data()),
         message.size(), reinterpret_cast<unsigned char*>(mac.data()), nullptr);
    EXPECT_EQ(client_proof(key, kSaid), mac) << size << " bytes of a key";
  }
}

TEST(Auth, node_proof_covers_the_rest_of_its_reply) {
  ProofReply reply;
  reply.client = ClientId{1};
  const auto proof = node_proof(bytes("secret"), kSaid, reply);
  reply.mac = proof;
  EXPECT_TRUE(same(proof, node_proof(bytes("secret"), kSaid, reply))) << "but not itself";
  reply.client = ClientId{2};
  EXPECT_FALSE(same(proof, node_proof(bytes("secret"), kSaid, reply)));
}

TEST(Auth, session_and_heir_keys_differ_by_client) {
  const auto key = session_key(bytes("secret"), kSaid, ClientId{1});
  EXPECT_NE(key, session_key(bytes("secret"), kSaid, ClientId{2}));
  const ShareReply share{ClientId{3}, make_nonce()};
  EXPECT_EQ(heir_key(key, share), heir_key(key, share));
  EXPECT_NE(heir_key(key, share), heir_key(key, ShareReply{ClientId{3}, make_nonce()}));
}

TEST(Auth, nonces_differ) {
  EXPECT_NE(make_nonce(), make_nonce());
}

// A ticket's key is another for each session and each ticket, and is seen only by whom it was covered for.
TEST(Auth, keys_of_tickets) {
  SessionKey mine{};
  SessionKey other{};
  other.fill(std::byte{1});
  const TicketReply ticket{7, make_nonce()};
  const SessionKey key = ticket_key(mine, ticket);
  EXPECT_NE(key, ticket_key(other, ticket));
  EXPECT_NE(key, ticket_key(mine, TicketReply{8, ticket.nonce}));
  EXPECT_NE(key, ticket_key(mine, TicketReply{7, make_nonce()}));
  const SessionKey covered = cover_key(other, ticket, key);
  EXPECT_NE(covered, key);
  EXPECT_EQ(cover_key(other, ticket, covered), key);
  EXPECT_NE(cover_key(mine, ticket, covered), key);
}

}  // namespace
}  // namespace comex::wire
