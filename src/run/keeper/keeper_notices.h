// What the keeper says to the user while the program runs: lines on the stderr that `comex run` had.
//
// Thread safety: look() by one thread; the rest from any.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/clock.h"
#include "pager/budget.h"
#include "pool/pool.h"
#include "run/keeper/keeper_server.h"

namespace comex {

// The nodes of a pool and what they lend: "64.0 MiB of unix:///run/comex/comex.sock, ...".
std::string sizes_of(const Pool& pool);

class Notices {
 public:
  // The pool takes no more and the program has gone beyond its budget; and, later, it is within it again. Each is said
  // once, and again only after a while.
  // `local`: bytes, of --local. What is not adopted is taken off that for the limit of the budget.
  void look(const Budget& budget, std::uint64_t local, const KeeperStatus& status, Pool& pool);
  // A node that has pages of the program does not answer for some seconds: said once, and again after it did.
  void look_at_nodes(const Pool& pool, bool backup);
  // Pages that have fewer copies than they should, and that they have them again.
  void look_at_copies(const KeeperStatus& status, const Pool& pool, Code code);
  // Nodes that want their memory back: that their pages were moved, at most once a minute, or that there is no room for
  // them elsewhere.
  void look_at_moves(const KeeperStatus& status);
  // Pages go to the disk of `folder`, and what it refuses: each is said once.
  void look_at_disk(const std::string& folder, const KeeperStatus& status, const Pool& pool);
  // A node's memory is gone, which had one of so many copies of each page; `backup`: there is a disk as well.
  static void lost(const Loss& loss, std::uint32_t copies, bool backup);
  // ... or its part of pages that are coded.
  static void lost(const Loss& loss, Code code);

 private:
  bool beyond_ = false;
  bool on_disk_ = false;
  bool disk_trouble_ = false;
  bool thin_ = false;
  Clock::time_point thin_since_{};
  std::uint64_t mended_before_ = 0;
  std::uint64_t moved_before_ = 0;
  Clock::time_point moved_quiet_{};
  Clock::time_point stuck_since_{};
  bool stuck_ = false;
  Clock::time_point quiet_until_{};
  struct Silence {
    Clock::time_point since;
    bool said = false;
  };
  std::map<std::uint16_t, Silence> silent_;  // by node
};

}  // namespace comex
