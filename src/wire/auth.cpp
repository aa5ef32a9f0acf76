// OpenSSL's newer functions look for providers and read files at their first use, which takes a millisecond: as long as
// `comex run` may take to look at a pool (run/launch/glance.h). This one is a function.
#define OPENSSL_SUPPRESS_DEPRECATED

#include "wire/auth.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cstdlib>

namespace comex::wire {
namespace {

static_assert(sizeof(Mac) == SHA256_DIGEST_LENGTH);

Mac sha256(std::initializer_list<ByteView> parts) {
  SHA256_CTX hash;
  Mac digest;
  SHA256_Init(&hash);
  for (const ByteView part : parts) SHA256_Update(&hash, part.data(), part.size());
  SHA256_Final(reinterpret_cast<unsigned char*>(digest.data()), &hash);
  OPENSSL_cleanse(&hash, sizeof hash);
  return digest;
}

// RFC 2104.
Mac hmac_sha256(ByteView key, ByteView message) {
  using Block = std::array<std::byte, SHA256_CBLOCK>;
  const auto padded = [&](std::byte with) {
    Block block{};
    if (key.size() <= block.size()) {
      std::copy(key.begin(), key.end(), block.begin());
    } else {
      const Mac digest = sha256({key});
      std::copy(digest.begin(), digest.end(), block.begin());
    }
    for (std::byte& byte : block) byte ^= with;
    return block;
  };
  Block inner = padded(std::byte{0x36});
  Block outer = padded(std::byte{0x5c});
  const Mac mac = sha256({outer, sha256({inner, message})});
  OPENSSL_cleanse(inner.data(), inner.size());
  OPENSSL_cleanse(outer.data(), outer.size());
  return mac;
}

// The label and each part are length-prefixed, so that no two different inputs give the same bytes.
Mac hmac(ByteView key, std::string_view label, std::initializer_list<ByteView> parts) {
  Writer w;
  w.put(label);
  for (const auto part : parts) w.put(static_cast<std::uint32_t>(part.size())).put(part);
  return hmac_sha256(key, w.take());
}

Bytes encode_id(ClientId id) {
  Writer w;
  w.put(id.value);
  return w.take();
}

}  // namespace

Nonce make_nonce() {
  Nonce nonce;
  if (getrandom(nonce.data(), nonce.size(), 0) != static_cast<ssize_t>(nonce.size())) std::abort();
  return nonce;
}

Mac client_proof(ByteView key, const Transcript& said) {
  return hmac(key, "comex 1 client proof", {said.hello, said.hello_reply});
}

Mac node_proof(ByteView key, const Transcript& said, const ProofReply& reply) {
  ProofReply unsigned_reply = reply;
  unsigned_reply.mac = {};
  return hmac(key, "comex 1 node proof", {said.hello, said.hello_reply, encode(unsigned_reply)});
}

SessionKey session_key(ByteView secret, const Transcript& said, ClientId client) {
  return hmac(secret, "comex 1 session key", {said.hello, said.hello_reply, encode_id(client)});
}

SessionKey heir_key(const SessionKey& parent, const ShareReply& reply) {
  return hmac(parent, "comex 1 heir key", {encode(reply)});
}

SessionKey ticket_key(const SessionKey& session, const TicketReply& reply) {
  return hmac(session, "comex 1 ticket key", {encode(reply)});
}

SessionKey cover_key(const SessionKey& session, const TicketReply& ticket, const SessionKey& key) {
  SessionKey covered = hmac(session, "comex 1 ticket cover", {encode(ticket)});
  for (std::size_t i = 0; i < covered.size(); ++i) covered[i] ^= key[i];
  return covered;
}

bool same(const Mac& a, const Mac& b) {
  return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace comex::wire
