// A link moves pages between this process and the arena of one memory node, and carries small control calls.
//
// There is one interface and one class per medium: ShmLink (unix://), TcpLink (tcp://, tls://), and in tests
// FaultyLink, which wraps another. Page moves are one-sided: the far side does no thinking beyond checking that the
// client holds the frames.
//
//   caller                       link                                node
//   Transfer{segments} --submit--> on its way ----------------------> frames
//   state() == done   <--progress/wait--  completion (result())
//
// Thread safety: submit, progress, wait and broken may be called from any number of threads at once. The control
// calls (grant .. bye) likewise, but they queue behind each other.
// Fault path: submit, progress, wait and broken allocate nothing and take no lock that is held across a blocking
// call. The control calls are NOT for the fault path.
//
// Invariants:
//  1. A submitted Transfer completes exactly once, with Errc::ok or an error, and within the link's time-out as long
//     as anybody calls progress or wait.
//  2. Until it completes, the Transfer, its segments and their local memory belong to the link. After that the link
//     never touches them again, whatever arrives late.
//  3. Once broken() is not ok it stays so; everything outstanding has completed or will at the next progress, and new
//     transfers complete at once with that error. A broken link is replaced, not repaired (see pool/member.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/expected.h"
#include "base/fd.h"
#include "fabric/transfer.h"
#include "wire/message.h"
#include "wire/types.h"

namespace comex {

// What a client needs to come back to its frames after a broken link, or to hand to a forked child.
struct Session {
  ClientId client;
  wire::SessionKey key{};
  std::uint64_t boot_id = 0;  // changes when the node's process restarts: old frames are gone
};

// What the node said of itself when the session began.
struct NodeInfo {
  NodeId nid;
  std::uint32_t frames = 0;
  unsigned slab_order = 0;
  Millis lease{0};
  std::uint16_t version = 0;                            // of the protocol that the two have agreed on
  std::optional<wire::Address> address = std::nullopt;  // tcp:// only: where it is, as a number
};

// The memory of a slab, for another process of this host to map.
struct SlabExport {
  Fd memory;
  std::uint64_t life = 0;  // changes whenever the memory behind the slab may have
};

class Link {
 public:
  virtual ~Link() = default;
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  // --- pages (fault path) ---
  virtual void submit(Transfer& transfer) noexcept = 0;
  // Moves things along without waiting; completes what is complete and what is overdue.
  virtual void progress() noexcept = 0;
  // Waits until `transfer` completes: spins a little if a core is spare, then sleeps. Bounded by the link's time-out.
  virtual Errc wait(Transfer& transfer) noexcept = 0;
  // Submit and wait.
  Errc move(Transfer& transfer) noexcept {
    submit(transfer);
    return wait(transfer);
  }
  [[nodiscard]] virtual Errc broken() const noexcept = 0;
  // Declares the link broken; everything outstanding completes with `why`.
  virtual void sever(Errc why) noexcept = 0;

  // --- control ---
  // Asks for about `frames` frames in extents of at least 2^min_order. Errc::no_memory is the node's plain "no".
  Expected<wire::GrantReply> grant(std::uint32_t frames, unsigned min_order = kUsualMinOrder);
  // Gives frames back. All or none: an extent not held by this client refuses the whole call.
  Expected<void> give_back(std::span<const Extent> extents);
  // Makes an heir: a client that holds every frame this one holds (for fork). One call, whatever the number.
  Expected<Session> share();
  // Keeps the lease, and hears how the node is.
  Expected<wire::NodeLoad> beat();
  Expected<wire::StatusReply> status();
  // The slabs that the node would have this client move out of.
  Expected<std::vector<std::uint32_t>> asked();
  // Tells the node to lend no more than so many frames.
  Expected<void> lend(std::uint32_t frames);
  // --- pages from node to node: see "Straight from node to node" in docs/design-notes.md. REQUIRES, for all three:
  // node().version >= wire::kStraightVersion ---
  // A ticket by which another may read these frames once.
  Expected<wire::TicketReply> ticket(std::span<const Extent> extents);
  // The node begins to pull pages. One at a time.
  Expected<void> pull(const wire::Pull& request);
  // How the last one is.
  Expected<wire::PullState> pulled();
  // Ends the session: the node takes all frames back. The link is broken afterwards.
  void bye();
  // Makes frames that this client holds reachable (shm: maps their slabs). grant() does it for what it grants; an heir
  // does it once for what it inherited.
  virtual Expected<void> reach(std::span<const Extent> extents) = 0;
  // The reverse: give_back() calls it once the node has them. REQUIRES: nobody uses these frames any more.
  virtual void forget(std::span<const Extent> extents) noexcept = 0;

  // Tells of memory that transfers will come from or go to, again and again. RDMA: it is registered, and its pages are
  // not copied on the way; the other links have no use for it. An error does no harm: transfers of it go as before.
  // The memory is shared, or this process does not fork, or its kernel copies pinned pages then (Linux 5.12).
  virtual Expected<void> enlist(std::span<std::byte>) { return {}; }
  // The reverse, of the whole of what was enlisted; it comes before the memory goes. REQUIRES: no transfer of it is
  // under way.
  virtual void delist(std::span<std::byte>) noexcept {}

  // --- for other processes of this host that use the frames of this session (run/keeper/keeper_server.h) ---
  // Where the medium has such things and LinkOptions::exportable is set; otherwise Errc::unsupported. Neither calls the
  // node. Over TCP such a process has lanes of its own: open_lane() in fabric/tcp_link.h.
  virtual Expected<Fd> export_fence();
  // REQUIRES: this client holds a frame of the slab, and will until the other process no longer uses it.
  virtual Expected<SlabExport> export_slab(std::uint32_t slab);
  // No two links of this process have the same: tells a link from the one that replaced it.
  [[nodiscard]] std::uint64_t number() const { return number_; }

  [[nodiscard]] const Session& session() const { return session_; }
  [[nodiscard]] const NodeInfo& node() const { return node_; }

  // One control request and the body of its reply, within the link's control time-out. The typed calls above use it.
  virtual Expected<std::vector<std::byte>> call(wire::Type type, std::span<const std::byte> body) = 0;

 protected:
  Link();
  // Held from a grant or return until its reply has been acted on by reach() or forget(). Otherwise a slab given back
  // by one thread and granted again to another could be unmapped by the first after the second has mapped it.
  std::mutex holding_mutex_;

  Session session_;
  NodeInfo node_;

 private:
  const std::uint64_t number_;
};

}  // namespace comex
