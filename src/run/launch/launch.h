// How a program gets a keeper: what `comex run` does before it becomes the program.
//
// This is on the way of every start, and done before the keeper's libraries are even loaded: the keeper is a program of
// its own (run/keeper/keeper_main.cpp), and starts while the program does, or when that needs it (watcher_main.cpp).
#pragma once

#include <cstdint>
#include <string>

#include "base/expected.h"
#include "base/fd.h"
#include "pager/evict/choice.h"
#include "pager/prefetch/choice.h"
#include "pager/seal/choice.h"
#include "run/delivery.h"
#include "run/keeper/keeper_options.h"
#include "run/tuning.h"

namespace comex {

struct Launch {
  KeeperOptions keeper;
  std::uint64_t hard = 0;  // bytes it may keep if the pool takes no more
  Delivery delivery = Delivery::inline_signal;
  Prefetch prefetch = Prefetch::automatic;
  Evict evict = Evict::two_queues;
  Sealing sealing = Sealing::none;
  Tuning tuning;
  bool at_once = false;     // processes do not begin dormant
  bool old_kernel = false;  // they use nothing that Linux 6.1 has not
  Fd stats;                 // where to write what happened, at the end; may be none
  Fd trace;                 // where to write faults, as they come; may be none
  Fd done;                  // held until all of that is done; may be none

  // Somebody is to hear what happened.
  [[nodiscard]] bool told() const { return stats || trace || keeper.summary || !keeper.profile.empty(); }
  // There is nothing for a keeper to do before a process comes near its budget, if ever.
  [[nodiscard]] bool can_wait() const { return !told() && !at_once && keeper.backup.folder.empty(); }
};

// Starts a keeper, `executable` (or what becomes one: run/keeper/watcher_main.cpp), for a program that is about to run
// in this process (exec). It ends when this process, and every process that came from it, has ended; it is nobody's
// child. Whether the pool is there and has memory is known when this returns, unless that was seen before (`later`); of
// a node of our own there is no doubt.
// Returns the value of Room::kVariable for the program. REQUIRES: this process has one thread.
Expected<std::string> start_keeper(const Launch& launch, const std::string& executable);

}  // namespace comex
