// A small memory node to fuzz, and the harness's own account of it to check it against.
//
//   arena: 2 slabs   [ bystander | ..... ] [ ..... ]
//   clients          those the fuzz input speaks for (Known), and the bystander
//
// The bystander is a client that does nothing. Its frames hold a pattern that nobody else's bytes ever have: they must
// be intact when the input is used up, and no byte of them may ever reach anybody.
//
// Each family of clients has a byte of its own, which is all its members ever write. So wherever a byte turns up, it
// tells whose it is.
#pragma once

#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "node/arena.h"
#include "node/client.h"
#include "node/context.h"
#include "node/ledger.h"
#include "node/tickets.h"
#include "wire/auth.h"
#include "wire/message.h"

namespace comex::fuzz {

inline constexpr std::uint32_t kSlabFrames = 1U << Arena::kMinSlabOrder;
inline constexpr std::uint32_t kSlabs = 2;
inline constexpr std::uint32_t kFrames = kSlabs * kSlabFrames;
inline constexpr std::uint32_t kMaxClients = 6;  // the bystander included
inline constexpr std::byte kBystanderByte{0xa5};
using FrameSet = std::bitset<kFrames>;

// A client, as the node's replies have told.
struct Known {
  ClientId id;
  wire::SessionKey key{};
  Medium medium = Medium::tcp;
  uid_t uid = 0;
  std::byte mark{};  // of its family
  FrameSet held;
  FrameSet asked;  // frames that it has sent writes to and did not hold: if it gets them, a write that waits may land
  std::bitset<kSlabs> mapped;  // slabs it was given at some time: it may keep them mapped for ever
  std::uint32_t coming = 0;    // how often it has come back
  bool ended = false;

  // Whether it holds all of these; false also if they are beyond the arena.
  [[nodiscard]] bool holds(const Extent& extent) const;
  [[nodiscard]] bool holds_any_of_slab(std::uint32_t slab) const;
};

// A ticket that the node has given to a client.
struct KnownTicket {
  Known* client = nullptr;
  std::uint32_t coming = 0;  // of the client, when it was given
  std::uint64_t number = 0;
  wire::SessionKey key{};
  std::vector<Extent> extents;
  bool used = false;

  // Whether it still opens a lane, as long as it is not too old: see tickets_may_run_out().
  [[nodiscard]] bool is_good() const { return !used && !client->ended && client->coming == coming; }
  [[nodiscard]] bool opens(const Extent& extent) const;
};

class NodeWorld {
 public:
  NodeWorld();
  // Ends every client and checks that nothing is lost, and nothing is where it should not be.
  // REQUIRES: all connections are gone.
  ~NodeWorld();
  NodeWorld(const NodeWorld&) = delete;
  NodeWorld& operator=(const NodeWorld&) = delete;

  [[nodiscard]] NodeContext& node() { return *node_; }
  [[nodiscard]] const std::vector<std::unique_ptr<Known>>& clients() const { return clients_; }
  [[nodiscard]] const std::vector<std::unique_ptr<KnownTicket>>& tickets() const { return tickets_; }
  // An input takes far less time than tickets are good for, but for one that a busy machine has kept waiting: then the
  // first may be too old by the node's clock, which is this one.
  [[nodiscard]] bool tickets_may_run_out() const { return Clock::now() >= began_ + Tickets::Config{}.life; }
  [[nodiscard]] std::uint32_t live_clients() const;  // with the bystander
  [[nodiscard]] const Extent& bystander_frames() const { return bystander_frames_; }

  // --- what the node has said or done ---
  Known& begun(ClientId id, const wire::SessionKey& key, Medium medium, uid_t uid);
  Known& shared(const Known& parent, const wire::ShareReply& reply);
  // `latest`: the node has done nothing since that would show in the arena.
  void granted(Known& client, const wire::Grant& request, const std::vector<Extent>& extents, bool latest);
  void given_back(Known& client, const std::vector<Extent>& extents);
  void mapped(Known& client, std::uint32_t slab);
  void ended(Known& client);
  void gave_ticket(Known& client, const std::vector<Extent>& extents, const wire::TicketReply& reply);
  // Bytes of a write to these frames are about to come in: where the client holds them, they may change.
  void may_write(Known& client, std::span<const Extent> extents);
  // Pages that the node sends to this client.
  void check_sent(const Known& client, wire::ByteView pages) const;

  // --- what happens besides messages ---
  // The lease of everybody but the bystander runs out.
  void fall_silent();
  // A client that has mapped a slab writes to it: be it to frames that it does not hold, be it after its end. It does
  // nothing once there is other memory in the slab's place.
  void store_through_mapping(const Known& client, FrameNo frame);
  void renew_some() { (void)ledger_->renew_some(1); }

 private:
  void end_all_but_bystander();
  void check_bystander() const;
  void check_rest_untouched() const;

  const Clock::time_point began_ = Clock::now();
  Arena& arena_;
  std::unique_ptr<Ledger> ledger_;
  std::unique_ptr<NodeContext> node_;
  std::shared_ptr<Client> bystander_;
  Extent bystander_frames_;
  std::vector<std::unique_ptr<Known>> clients_;
  std::vector<std::unique_ptr<KnownTicket>> tickets_;
  unsigned families_ = 0;
  std::array<std::byte, kSlabs> mapped_by_{};  // by slab: the mark of the family that may have it mapped
  FrameSet stained_;                           // frames that may hold somebody's bytes
};

}  // namespace comex::fuzz
