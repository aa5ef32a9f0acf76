// The keeper as a process: what `comex run` starts beside the program, and what ends when the program has.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/expected.h"
#include "base/fd.h"
#include "pager/evict/choice.h"
#include "pager/prefetch/choice.h"
#include "pool/pool.h"
#include "run/delivery.h"

namespace comex {

struct KeeperOptions {
  PoolConfig pool;               // no nodes: a node of our own, for as long as the program runs
  std::uint64_t local = 0;       // bytes: the budget of the program
  std::uint64_t hard = 0;        // bytes it may keep if the pool takes no more
  std::uint64_t own_memory = 0;  // bytes that a node of our own lends
  Delivery delivery = Delivery::inline_signal;
  Prefetch prefetch = Prefetch::next;
  Evict evict = Evict::fifo;
  bool at_once = false;     // processes do not begin dormant
  bool old_kernel = false;  // they use nothing that Linux 6.1 has not
  std::string program;      // its name, for reports
  Fd stats;                 // where to write what happened, at the end; may be none
  bool summary = false;     // say on stderr what happened, at the end
  Fd done;                  // held until all of that is done; may be none
};

// Forks a keeper for a program that is about to run in this process (exec), and waits until it is ready. The keeper
// is a session of its own, so that signals from the terminal are not for it; it ends when this process, and every
// process that came from it, has ended. Returns the value of Room::kVariable for the program.
// REQUIRES: this process has one thread.
Expected<std::string> start_keeper(const KeeperOptions& options);

}  // namespace comex
