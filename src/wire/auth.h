// How two sides prove to each other that they know a key, without sending it.
//
//   client -> node   hello { nonce_c, ... }
//   node -> client   hello reply { nonce_n, ... }
//   client -> node   proof  HMAC(key, "client" | hello | hello reply)
//   node -> client   proof  HMAC(key, "node"   | hello | hello reply | rest of the proof reply)
//
// The key is the shared secret when a session begins, and the session's own key when a connection joins it. Both
// nonces are in every proof, so a recorded handshake is worth nothing later; both hellos are, so nobody in between can
// change a version or a purpose. All functions are pure and thread-safe (make_nonce asks the kernel).
#pragma once

#include <string_view>

#include "wire/message.h"

namespace comex::wire {

// What both sides have said before the proofs, in the bytes that were sent.
struct Transcript {
  Bytes hello;
  Bytes hello_reply;
};

Nonce make_nonce();

Mac client_proof(ByteView key, const Transcript& said);
Mac node_proof(ByteView key, const Transcript& said, const ProofReply& reply);

// A new session's key: only the two ends of this handshake can know it.
SessionKey session_key(ByteView secret, const Transcript& said, ClientId client);
// The key of an heir, which the parent can compute and hand to its child.
SessionKey heir_key(const SessionKey& parent, const ShareReply& reply);

// The key of a ticket, of the key of the session that asked for it.
SessionKey ticket_key(const SessionKey& session, const TicketReply& reply);
// Hides a ticket's key from all but those who know the key of the session that it is sent on; or shows it again. For
// one use per session and ticket: the ticket's nonce makes it another each time.
SessionKey cover_key(const SessionKey& session, const TicketReply& ticket, const SessionKey& key);

// In constant time.
bool same(const Mac& a, const Mac& b);

}  // namespace comex::wire
