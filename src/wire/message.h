// Every message between a client and a memory node, and how it is laid out in bytes. The prose is docs/protocol.md.
//
// A message is a Header, a body of `body` bytes, and a payload of `payload` bytes (page data, only with read and
// write). Each request has one reply with the same tag; replies on one connection come in the order of the requests.
// decode() accepts exactly what encode() makes, within the limits below, and nothing else.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/expected.h"
#include "wire/codec.h"
#include "wire/types.h"

namespace comex::wire {

inline constexpr std::uint32_t kMagic = 0x584d4f43;  // "COMX"
inline constexpr std::uint16_t kVersion = 3;
inline constexpr std::uint16_t kOldestVersion = 2;    // that is understood as well
inline constexpr std::uint16_t kStraightVersion = 3;  // from this on there are tickets and pulls

// Limits on what a peer can ask for in one message.
inline constexpr std::uint32_t kMaxSegments = 64;        // extents in one read or write
inline constexpr std::uint32_t kMaxTransferPages = 256;  // pages in one read or write: 1 MiB
inline constexpr std::uint32_t kMaxExtents = 4096;       // extents in one grant or return
inline constexpr std::uint32_t kMaxBody = 64 * 1024;     // bytes of body
inline constexpr std::uint32_t kMaxHandshakeBody = 512;  // bytes of body before the peer has proved itself
inline constexpr std::uint32_t kMaxSlabsPerMap = 64;     // descriptors in one map reply
inline constexpr std::uint32_t kMaxAsked = 4096;         // slabs in one asked reply

using Nonce = std::array<std::byte, 32>;
using Mac = std::array<std::byte, 32>;
using SessionKey = std::array<std::byte, 32>;

enum class Type : std::uint16_t {
  hello = 1,  // client -> node: who I am, my nonce
  proof = 2,  // client -> node: I know the key
  grant = 3,  // give me frames
  give_back = 4,
  share = 5,  // make an heir that holds what I hold
  map = 6,    // shm: descriptors of slabs; RDMA: their keys
  beat = 7,   // I am alive
  status = 8,
  bye = 9,
  read = 10,
  write = 11,
  asked = 12,   // which slabs would you have me move out of
  lend = 13,    // lend no more than so many frames
  ticket = 14,  // let somebody else read these frames of mine, once
  pull = 15,    // bring pages from another node into my frames here
  pulled = 16,  // ... and how is that?
};
inline constexpr std::uint16_t kReplyBit = 0x8000;  // set in the type of a reply

struct Header {
  static constexpr std::size_t kBytes = 16;
  std::uint32_t body = 0;
  std::uint16_t type = 0;    // a Type, with kReplyBit in a reply
  std::uint16_t status = 0;  // an Errc, in a reply
  std::uint32_t tag = 0;
  std::uint32_t payload = 0;
  friend bool operator==(const Header&, const Header&) = default;
};
static_assert(sizeof(Header) == Header::kBytes, "the struct is the wire layout");

enum class Purpose : std::uint8_t {
  begin = 0,    // a new client
  resume = 1,   // another control connection for a client that is there (after a broken link, or an heir's first)
  lane = 2,     // a data connection of a client that is there
  observe = 3,  // only asks for status; holds nothing
  pull = 4,     // a data connection that reads the frames of a ticket
};

struct Hello {
  std::uint16_t version_min = kOldestVersion;
  std::uint16_t version_max = kVersion;
  Purpose purpose = Purpose::begin;
  NodeId nid;             // the compute host
  std::uint32_t pid = 0;  // the process
  ClientId client;        // resume, lane: which; pull: the ticket's number
  Nonce nonce{};
  std::string name;  // for people: shown in status; at most 64 bytes
};

struct HelloReply {
  std::uint16_t version = kVersion;
  std::uint64_t boot_id = 0;
  Nonce nonce{};
};

struct Proof {
  Mac mac{};
};

struct ProofReply {
  Mac mac{};  // the node knows the key too
  ClientId client;
  NodeId nid;
  std::uint32_t frames = 0;
  std::uint8_t slab_order = 0;
  std::uint32_t lease_ms = 0;
};

struct Grant {
  std::uint32_t frames = 0;
  std::uint8_t min_order = kUsualMinOrder;
};

// How a node is, told with every grant and beat: what placement and refill go by.
struct NodeLoad {
  std::uint32_t free_frames = 0;
  std::uint32_t largest_free = 0;  // frames in the largest free extent
  std::uint32_t clients = 0;
  std::uint32_t service_ns = 0;  // mean time to serve a grant
  std::uint32_t asked = 0;       // frames of the client who hears this that the node would like to have back
};

struct GrantReply {
  std::vector<Extent> extents;
  NodeLoad load;
};

struct GiveBack {
  std::vector<Extent> extents;
};

struct ShareReply {
  ClientId heir;
  Nonce nonce{};  // the heir's session key comes from the parent's and this
};

struct Map {
  std::vector<std::uint32_t> slabs;
};
// Its reply, on the Unix socket: no body, one descriptor per slab, in order. Over RDMA, in that order:
struct SlabKey {
  std::uint64_t address = 0;  // of the slab's first byte, as the node has it
  std::uint32_t key = 0;      // the remote key of the slab
};
struct MapReply {
  std::vector<SlabKey> keys;
};

// Slabs that the node wants empty and of which this client holds frames. Those it moves first come first.
struct AskedReply {
  std::vector<std::uint32_t> slabs;
};

struct Lend {
  std::uint32_t frames = 0;  // all of them: UINT32_MAX
};
// Its reply has no body.

// See "Straight from node to node" in docs/design-notes.md. Within the limits of one read, as are all lists of extents
// from here on.
struct Ticket {
  std::vector<Extent> extents;
};
struct TicketReply {
  std::uint64_t number = 0;
  Nonce nonce{};  // the ticket's key comes from the session's and this
};

// Where a node listens: an IPv6 address, or an IPv4 one mapped into it.
struct Address {
  std::array<std::byte, 16> ip{};
  std::uint16_t port = 0;
  friend bool operator==(const Address&, const Address&) = default;
};

struct Pull {
  Address from;
  std::uint64_t boot_id = 0;  // of the node there
  TicketReply ticket;
  SessionKey covered_key{};  // of the ticket, for the eyes of this node only: see cover_key() in wire/auth.h
  std::vector<Extent> source;
  std::vector<Extent> target;  // as many pages
};
// Its reply has no body: it has begun.

enum class PullState : std::uint8_t { under_way = 0, landed = 1, failed = 2 };
struct PulledReply {
  PullState state = PullState::under_way;
};

struct StatusReply {
  struct Client {
    ClientId id;
    std::string name;
    std::string peer;
    std::uint32_t pid = 0;
    std::uint32_t frames = 0;
    std::uint32_t silent_ms = 0;
  };
  NodeId nid;
  std::uint32_t frames = 0;   // of the arena
  std::uint32_t goal = 0;     // that it is to have in memory at most
  std::uint32_t present = 0;  // that are in memory now
  std::uint32_t lent = 0;     // that clients hold
  NodeLoad load;
  std::uint64_t uptime_ms = 0;
  std::uint64_t metadata_bytes = 0;
  std::uint64_t pages_read = 0;
  std::uint64_t pages_written = 0;
  std::uint32_t client_count = 0;
  std::vector<Client> clients;                // the first kMaxStatusClients of them
  std::optional<std::uint64_t> pages_pulled;  // from other nodes; to those who speak kStraightVersion or later
};
inline constexpr std::uint32_t kMaxStatusClients = 256;
inline constexpr std::size_t kMaxName = 64;

// The versions a hello names, whatever else a later version may say in it. Nothing if it is no hello at all.
struct Versions {
  std::uint16_t min = 0;
  std::uint16_t max = 0;
};
std::optional<Versions> decode_versions(ByteView hello);

// Headers are checked for what holds of any message; limits that depend on the connection are the caller's.
std::optional<Header> decode_header(std::span<const std::byte, Header::kBytes> bytes);

Bytes encode(const Hello&);
Bytes encode(const HelloReply&);
Bytes encode(const Proof&);
Bytes encode(const ProofReply&);
Bytes encode(const Grant&);
Bytes encode(const NodeLoad&);
Bytes encode(const GrantReply&);
Bytes encode(const GiveBack&);
Bytes encode(const ShareReply&);
Bytes encode(const Map&);
Bytes encode(const AskedReply&);
Bytes encode(const Lend&);
Bytes encode(const MapReply&);
Bytes encode(const Ticket&);
Bytes encode(const TicketReply&);
Bytes encode(const Pull&);
Bytes encode(const PulledReply&);
Bytes encode(const StatusReply&);
Bytes encode_extents(std::span<const Extent>);

// decode<T>(body): the message, or nothing if the bytes are not exactly one.
template <typename T>
std::optional<T> decode(ByteView body);

// The extents of a read or write: at most kMaxSegments of them and kMaxTransferPages pages, none empty, none wrapping.
// Writes into `out` without allocating; returns how many, or nothing if malformed.
std::optional<std::size_t> decode_segments(ByteView body, std::span<Extent, kMaxSegments> out);

}  // namespace comex::wire
