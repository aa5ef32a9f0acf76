#include "wire/auth.h"

#include <openssl/crypto.h>
#include <openssl/hmac.h>
#include <sys/random.h>

#include <cstdlib>

namespace comex::wire {
namespace {

// The label and each part are length-prefixed, so that no two different inputs give the same bytes.
Mac hmac(ByteView key, std::string_view label, std::initializer_list<ByteView> parts) {
  Writer w;
  w.put(label);
  for (const auto part : parts) w.put(static_cast<std::uint32_t>(part.size())).put(part);
  const Bytes message = w.take();
  Mac mac;
  unsigned size = 0;
  const auto* out = HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
                         reinterpret_cast<const unsigned char*>(message.data()), message.size(),
                         reinterpret_cast<unsigned char*>(mac.data()), &size);
  if (out == nullptr || size != mac.size()) std::abort();  // only if OpenSSL is out of memory or has no SHA-256
  return mac;
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
