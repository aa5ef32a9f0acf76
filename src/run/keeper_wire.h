// The messages between the processes of a program under `comex run` and the keeper, which owns the program's pool.
//
// A connection is a Unix SEQPACKET socket; one packet is one message: a Head, the struct of its type, and for give_back
// and grant a list of runs. At most 64 KiB. Both ends are the same build on the same machine: integers are as the
// machine has them, unused fields are 0, and the version is compared once. Descriptors travel by SCM_RIGHTS. The kernel
// delivers in order, and that is relied on: a node is told before a slab of it, a slab before a run in it.
//
// Runs are of homes, each within a chunk; where they are says the map (run/chunk_map.h), which comes with welcome.
// Everything else is about nodes as the keeper's pool numbers them.
//
//   process -> keeper
//   type       body               descriptors
//   hello      Hello              none          first of all, once. The sender's credentials come from the kernel
//   want       Want               none          grant me so many frames more than I have asked for so far:
//                                               whole columns, where pages are coded
//   give_back  Runs, runs         none          I hold these no longer, and no transfer of them is under way
//   heir       none               none          make a connection for the child I am about to fork
//   lanes      NodeRef            none          my lanes to that node broke: new ones, please. Sent before the
//                                               give_back of any frame that a broken lane may still carry a write to.
//                                               shm: its fence was raised; you may not have noticed
//                                               disk: it cannot be written any more
//   sealed     Seal               none          the answer to seal
//
//   keeper -> process
//   type       body               descriptors
//   welcome    Welcome            lifeline,     the answer to hello. Map all: see run/lifeline.h and, if there is a
//                                 map, backup   backup, run/backup_map.h. An heir has them already, and gets none
//   node       Node               fence (shm),  frames of this node may follow. For a node that was told before: a new
//                                 file (disk)   session, under the same id; nothing of the old one is held by anybody
//   slab       Slab               its memory    shm: map it, in place of what was there
//   back       NodeRef            lanes (tcp),  the node can be used (again)
//                                 lanes, desks  relayed: the sockets of all lanes, then the desks (fabric/lane_desk.h)
//                                 (relayed)     A process that has a dock sends it on each of the sockets
//   away       NodeRef            none          it cannot be used now; its frames may come back
//   lost       NodeRef            none          its frames are gone for ever
//   grant      Runs, runs         none          these are yours
//   refused    Refused            none          there is no memory now; what you want is granted when there is
//   heir       none               socket,       the child's connection. Its holder holds every frame that the asking
//                                 lifeline      process held when this was sent. No descriptors: it could not be made
//   seal       Seal               none          some chunks have been sealed in the map. Answer when no write that
//   began
//                                               before you heard of it is under way; give back what you have at hand
//   place      Since              none          late places up to this can be used: you know their nodes and slabs
//   tidy       Tidy               none          where pages are coded: write pages elsewhere that are in columns which
//                                               are mostly empty, or do not
//   closing    Closing            none          the keeper ends the connection, and why
//
// After node a tcp or relayed node is away until back brings lanes; an shm node can be used at once, and so can the
// disk, of which a process hears right after welcome (an heir has it already). A message that makes no sense ends the
// connection.
//
// Trivially copyable, for both ends; part of the code inside programs.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>

#include "pool/code.h"
#include "pool/location.h"

namespace comex::keeper_wire {

inline constexpr std::uint32_t kVersion = 6;
inline constexpr std::size_t kMaxMessage = 64 * 1024;
inline constexpr std::size_t kMaxRuns = 4096;        // in one message: 48 KiB
inline constexpr std::size_t kMaxDescriptors = 16;   // with one message
inline constexpr std::size_t kMaxLanes = 8;          // to one node, for one process
inline constexpr std::uint32_t kMaxWant = 1U << 20;  // frames asked for and not yet granted, by one process: 4 GiB
inline constexpr std::uint16_t kMaxNodes = 4096;     // ids of sessions, over the life of the pool (PoolConfig::max_ids)

// The file of --backup, as if it were one more node.
inline constexpr NodeId kDisk{kMaxNodes};

enum class Type : std::uint32_t {
  hello = 1,
  want,
  give_back,
  heir,
  lanes,
  sealed,
  welcome = 16,
  node,
  slab,
  back,
  away,
  lost,
  grant,
  refused,
  closing,
  seal,
  place,
  tidy,
};

enum class Medium : std::uint8_t { shm = 1, tcp = 2, disk = 3, relayed = 4 };

struct Head {
  Type type{};
};

struct Hello {
  std::uint32_t version = kVersion;
  std::uint32_t pid = 0;  // as the process sees it, for the log
};

struct Want {
  std::uint32_t frames = 0;
};

// Followed by `count` runs.
struct Runs {
  std::uint32_t count = 0;
};

struct Welcome {
  std::uint32_t version = kVersion;
  std::uint32_t copies = 1;  // that chunks usually have
  Code code;                 // how pages are coded
  bool relayed = false;      // some nodes are
};

// Text for people, cut to fit.
struct Text {
  std::array<char, 128> bytes{};
  std::uint32_t size = 0;

  void assign(std::string_view text) noexcept {
    size = static_cast<std::uint32_t>(text.size() < bytes.size() ? text.size() : bytes.size());
    std::memcpy(bytes.data(), text.data(), size);
  }
  [[nodiscard]] std::string_view view() const noexcept {
    return {bytes.data(), size < bytes.size() ? size : bytes.size()};
  }
};

struct Node {
  NodeId id;
  Medium medium{};
  std::uint8_t slab_order = 0;
  std::uint32_t frames = 0;
  Text name;  // its URL
};

struct Slab {
  NodeId node;
  std::uint16_t unused = 0;
  std::uint32_t index = 0;
};

struct NodeRef {
  NodeId node;
  std::uint16_t unused = 0;
};

struct Refused {
  std::uint16_t why = 0;  // Errc::no_memory: every node says no; Errc::disconnected: none is up
};

struct Seal {
  std::uint32_t round = 0;
};

struct Since {
  std::uint32_t since = 0;
};

struct Tidy {
  std::uint32_t wanted = 0;
};

struct Closing {
  Text reason;
};

// The body of a received message of type T; false if it has another size. `tail` is what follows it.
template <typename T>
bool read_body(std::span<const std::byte> message, T& body, std::span<const std::byte>* tail = nullptr) noexcept {
  static_assert(std::is_trivially_copyable_v<T>);
  if (message.size() < sizeof(Head) + sizeof(T)) return false;
  std::memcpy(&body, message.data() + sizeof(Head), sizeof(T));
  const auto rest = message.subspan(sizeof(Head) + sizeof(T));
  if (tail != nullptr) *tail = rest;
  return tail != nullptr || rest.empty();
}

// A give_back or grant: how many runs, or SIZE_MAX if it is malformed. run_at() reads them.
inline std::size_t run_count(std::span<const std::byte> message) noexcept {
  Runs runs;
  std::span<const std::byte> tail;
  if (!read_body(message, runs, &tail)) return SIZE_MAX;
  const bool fits = runs.count > 0 && runs.count <= kMaxRuns && tail.size() == runs.count * sizeof(Run);
  return fits ? runs.count : SIZE_MAX;
}
// REQUIRES: i < run_count(message), which is not SIZE_MAX.
inline Run run_at(std::span<const std::byte> message, std::size_t i) noexcept {
  Run run;
  std::memcpy(&run, message.data() + sizeof(Head) + sizeof(Runs) + i * sizeof(Run), sizeof run);
  return run;
}

static_assert(sizeof(Head) + sizeof(Runs) + kMaxRuns * sizeof(Run) <= kMaxMessage);
static_assert(std::is_trivially_copyable_v<Run> && std::is_trivially_copyable_v<Node>);

}  // namespace comex::keeper_wire
