// What every connection of a node shares.
// Thread safety: set up before the first connection; afterwards only the counters change.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "base/clock.h"
#include "node/arena.h"
#include "node/ledger.h"
#include "node/puller.h"
#include "node/tickets.h"
#include "wire/message.h"

namespace comex {

struct NodeContext {
  Arena& arena;
  Ledger& ledger;
  std::string secret;
  NodeId nid;
  Millis lease{0};
  std::uint64_t boot_id = 0;  // random: tells this process from the one before it on the same address
  Clock::time_point started = Clock::now();
  std::array<std::atomic<unsigned>, kMedia> greeting{};  // connections that have not proved themselves yet, by medium
  std::atomic<std::uint64_t> pages_read{0};
  std::atomic<std::uint64_t> pages_written{0};
  std::atomic<std::uint64_t> pages_pulled{0};  // from other nodes

  // What is lent at most, by an operator's word (`comex drain`). A smaller one counts, if there are others.
  std::function<void(std::uint32_t frames)> lend = nullptr;

  std::uint16_t version = wire::kVersion;  // the latest that is spoken
  Tickets tickets{};
  bool tls = false;          // is what TCP connections speak
  Puller* puller = nullptr;  // null: nothing can be pulled

  std::atomic<unsigned>& greeting_on(Medium medium) { return greeting[static_cast<std::size_t>(medium)]; }

  [[nodiscard]] wire::StatusReply status() const {
    wire::StatusReply status;
    status.nid = nid;
    status.uptime_ms = static_cast<std::uint64_t>(std::chrono::duration_cast<Millis>(Clock::now() - started).count());
    status.pages_read = pages_read.load(std::memory_order_relaxed);
    status.pages_pulled = pages_pulled.load(std::memory_order_relaxed);
    status.pages_written = pages_written.load(std::memory_order_relaxed);
    ledger.describe(status);
    return status;
  }
};

}  // namespace comex
