// The ledger: which client holds which frames. Grants, returns, shares for fork, and takes everything back from a
// client that ends or falls silent.
//
// Roles: the control loop calls all of it; lane loops only read Client::holdings, under Client::access.
//
// Thread safety: all functions may be called from any thread. Locks, in order: mutex_, Client::access.
//
// Invariants:
//  1. references_[f] is the number of clients whose holdings contain f; f is free in the buddy system iff it is 0.
//  2. When a client comes to hold a frame by a grant, the frame's bytes are zero, or were last written by its own
//     family: nothing of anybody else's is ever handed out.
//  3. A slab that was exported (mapped by shm clients) and has become free is withheld until its memory has been
//     replaced: a zombie that still maps it maps nothing that anybody uses.
//  4. A client's fence is raised, and its holdings are emptied, before any of its frames is freed.
//  5. The key of a slab (RDMA) opens nothing any more before a frame of it can be anybody's who is not of the family; a
//     client's lanes are cut before its frames can be anybody's at all.
//  6. Frames that a silent shm client alone held are quarantined, not freed, as long as others hold frames of the same
//     slab: the client may be stopped in the middle of a copy into one of them. They are free when the slab is empty,
//     and with it replaced.
//  7. A closed slab, or one that is compacted, has frames with references, and nothing of it is granted; its other
//     frames are the ledger's own. An absent slab is withheld, and has no memory.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/expected.h"
#include "node/arena.h"
#include "node/buddy.h"
#include "node/client.h"
#include "wire/message.h"

namespace comex {

struct LedgerConfig {
  Millis lease{10'000};
  std::uint32_t max_clients = 1024;
  // What one grant gives at most: 64 MiB, which take some 10 ms to scrub while others wait for the ledger.
  std::uint32_t max_grant = 1U << 14;
  // Slabs are emptied for the sake of long extents as long as one frame in so many is free; 0: never. See "Compaction"
  // in docs/design-notes.md.
  std::uint32_t compact_above = 12;
  Millis compact_patience{10'000};  // for clients to move, before they are left alone
  Millis compact_pause{60'000};     // ... for so long
};

// Who comes in, as its connection shows.
struct Arrival {
  Medium medium = Medium::tcp;
  uid_t uid = 0;
  std::uint32_t pid = 0;
  std::string name;
  std::string peer;
  std::shared_ptr<RemoteAccess> access;  // RDMA: of its device, for a family that begins with it
  bool loopback = false;                 // TCP: from this machine
};

class Ledger {
 public:
  Ledger(Arena& arena, const LedgerConfig& config);

  // --- clients ---
  ClientId next_id();
  Expected<std::shared_ptr<Client>> admit(ClientId id, const wire::SessionKey& key, const Arrival& arrival);
  // The client, if it is still there. An heir is found from the moment share() made it.
  std::shared_ptr<Client> find(ClientId id);
  // Takes all frames back. The client is fenced: whoever still speaks for it is refused.
  void end(Client& client);
  void end_all();
  // Ends the clients that have been silent for longer than the lease. Returns how many.
  std::size_t end_silent(Clock::time_point now);

  // --- frames ---
  Expected<std::vector<Extent>> grant(Client& client, std::uint32_t frames, unsigned min_order);
  Expected<void> give_back(Client& client, const std::vector<Extent>& extents);
  // An heir that holds what `client` holds. It must be claimed (by a resumed session) within the lease.
  Expected<wire::ShareReply> share(Client& client);
  // Descriptors of slabs of which the client holds frames. Duplicates: while one waits to be sent, the arena may
  // replace the slab and close its own, and the number may come to mean another slab.
  Expected<std::vector<Fd>> slab_descriptors(Client& client, const std::vector<std::uint32_t>& slabs);

  // Keys of slabs of which the client holds frames. RDMA only.
  Expected<wire::MapReply> slab_keys(Client& client, const std::vector<std::uint32_t>& slabs);

  // --- memory that the host wants back: see "Giving memory back" in docs/design-notes.md ---
  // From now on at most so many frames, rounded down to whole slabs, are to be in memory. Slabs beyond that are closed,
  // their holders asked to move, and their memory is gone as soon as they are empty.
  void aim(std::uint32_t frames);
  // Goes on with that, and with compaction. True if there is more to do at once.
  bool adjust(Clock::time_point now = Clock::now());
  // Slabs that the client should move out of.
  [[nodiscard]] std::vector<std::uint32_t> asked_of(const Client& client) const;

  // Replaces the memory of up to `most` withheld slabs. True if there are more, and it is worth going on.
  bool renew_some(std::size_t most);

  // --- what there is ---
  [[nodiscard]] wire::NodeLoad load() const;
  // As the client should hear it.
  [[nodiscard]] wire::NodeLoad load_for(const Client& client) const;
  // Fills in sizes, load and clients.
  void describe(wire::StatusReply& status) const;

 private:
  using Clients = std::map<std::uint64_t, std::shared_ptr<Client>>;
  Expected<wire::SlabKey> slab_key(Client& client, std::uint32_t slab);
  // All REQUIRE: mutex_ held.
  Expected<std::shared_ptr<Client>> enter(ClientId id, const wire::SessionKey& key, const Arrival& arrival,
                                          std::shared_ptr<Family> family);
  enum class Fate { free, quarantine };
  Clients::iterator leave(Clients::iterator at, Fate fate);
  void release(const Extent& extent, Fate fate);
  void dispose(const Extent& run, Fate fate);
  void free_run(const Extent& run);
  void prepare(const Extent& extent, ZoneId zone);
  void scrub(const Extent& extent);
  std::size_t renew_withheld(std::size_t most);
  // --- ledger_vacate.cpp ---
  [[nodiscard]] std::uint32_t present() const { return arena_.slabs() - absent_; }
  bool drop(std::uint32_t slab);
  void drop_free();
  void close_some();
  void open_some();
  enum class SlabState : std::uint8_t { open, closed, compacting, absent };
  void close(std::uint32_t slab, SlabState why);
  void reopen(std::uint32_t slab);
  [[nodiscard]] bool is_asked(std::uint32_t slab) const {
    return slabs_[slab] == SlabState::closed || slabs_[slab] == SlabState::compacting;
  }
  // --- ledger_compact.cpp ---
  void compact(Clock::time_point now);
  [[nodiscard]] std::optional<std::uint32_t> sparse_slab() const;
  void stop_compacting(Clock::time_point now);
  bool bring_back();
  void settle_closed(std::uint32_t slab);
  void clear_dirty(std::uint32_t slab);
  [[nodiscard]] wire::NodeLoad load_now() const;

  Arena& arena_;
  const LedgerConfig config_;

  mutable std::mutex mutex_;  // guards all below
  Buddy buddy_;
  std::vector<std::uint16_t> references_;  // by frame
  std::vector<bool> dirty_;                // by frame: may hold somebody's bytes
  std::vector<bool> settled_;              // by slab: scrubbed for the zone it is in (zones but the common one)
  std::vector<std::uint32_t> live_;        // by slab: frames with references
  std::vector<std::shared_ptr<RemoteAccess>> opened_;        // by slab: who has its key; none: nobody
  std::map<std::uint32_t, std::vector<Extent>> quarantine_;  // by slab
  std::deque<std::uint32_t> withheld_;                       // slabs whose memory must be replaced
  std::vector<SlabState> slabs_;
  std::uint32_t goal_;        // slabs that may be present
  std::uint32_t absent_ = 0;  // slabs that are
  std::uint32_t closed_ = 0;
  std::uint32_t compacting_ = 0;
  std::uint64_t emptied_ = 0;          // slabs that were compacted, ever
  Clock::time_point compact_until_{};  // patience ends
  Clock::time_point compact_again_{};  // not before
  std::uint64_t emptied_before_ = 0;
  Clock::time_point adjusted_at_{};             // when adjust() was last called
  std::uint64_t lent_ = 0;                      // frames with references
  Clock::time_point last_look_ = Clock::now();  // of end_silent()
  Clients clients_;
  std::uint64_t last_id_ = 0;
  double service_ns_ = 0;  // mean time of a grant, slowly moving
};

}  // namespace comex
