// Tickets: by each of them somebody who is not its client may read some frames of one, once. See "Straight from node to
// node" in docs/design-notes.md.
//
// Thread safety: all functions from any thread.
//
// Invariants:
//  1. A ticket that was redeemed, is too old, or whose client has come back or ended since, is found by nobody.
//  2. What may be read by a ticket are its frames, as long as its client holds them: whoever serves it looks
//  (LanePeer).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "base/clock.h"
#include "base/expected.h"
#include "node/client.h"
#include "wire/message.h"

namespace comex {

struct Ticket {
  std::shared_ptr<Client> client;  // whose frames these are
  std::uint32_t coming = 0;        // of the client that it belongs to
  std::vector<Extent> extents;
  wire::SessionKey key{};
  Clock::time_point until{};  // nobody is served by it later

  [[nodiscard]] bool opens(const Extent& extent) const;
  [[nodiscard]] bool is_good(Clock::time_point now) const {
    return now <= until && !client->fenced.load() && client->coming.load() == coming;
  }
};

class Tickets {
 public:
  struct Config {
    Millis life{5'000};          // a pull takes milliseconds; a slow one gives up after 3 s
    std::size_t of_client = 16;  // a client has one pull at a time: those of earlier ones that were not used
    std::size_t of_all = 1024;
  };
  Tickets() : Tickets(Config{}) {}
  explicit Tickets(const Config& config) : config_(config) {}

  // Errc::denied if the client does not hold all of these frames, busy if there are too many tickets.
  Expected<wire::TicketReply> issue(const std::shared_ptr<Client>& client, std::uint32_t coming,
                                    std::vector<Extent> extents, Clock::time_point now);
  // Null if there is none, or none any more.
  [[nodiscard]] std::shared_ptr<const Ticket> find(std::uint64_t number, Clock::time_point now) const;
  // Nobody else can have it from now on. False if somebody has.
  bool redeem(std::uint64_t number);

 private:
  const Config config_;
  mutable std::mutex mutex_;  // guards all below
  std::map<std::uint64_t, std::shared_ptr<const Ticket>> tickets_;
  std::uint64_t last_number_ = 0;
};

}  // namespace comex
