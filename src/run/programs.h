// The programs under `comex run` on this machine, as their keepers tell (run/run_progress.h): those of this user, or
// all for root. Thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pool/code.h"

namespace comex {

struct ProgramReport {
  std::string name;
  std::uint32_t pid = 0;
  std::uint32_t copies = 1;
  Code code;                     // how pages are coded, if they are
  std::uint32_t processes = 0;   // that use the pool
  std::uint32_t nodes_away = 0;  // that have pages of it and do not answer
  bool stuck = false;            // nodes want memory back, and there is no room elsewhere
  std::uint64_t pages = 0;       // in the pool, or on the disk of --backup
  std::uint64_t held = 0;        // frames of nodes that they take, with copies, parity and what is free
  std::uint64_t free = 0;        // pages for which there would be room in that
  std::uint64_t dead = 0;        // ... and is not, for the sake of other pages of their columns
  std::uint64_t on_disk = 0;     // pages that are on the disk alone
  std::uint64_t behind = 0;      // that have one node, and are to have a copy on the disk
  std::uint64_t to_copy = 0;     // copies that are made again, since it last began, and how many are
  std::uint64_t copied = 0;
  std::uint64_t to_move = 0;  // pages that are moved, the same
  std::uint64_t moved = 0;
  std::uint64_t straight = 0;  // pages of both that went from node to node, ever
  std::uint64_t rate = 0;      // pages a second
  // Every page has its copies where they may stay, on nodes that answer.
  [[nodiscard]] bool well() const { return copied == to_copy && moved == to_move && nodes_away == 0; }
};

std::vector<ProgramReport> programs_here();

}  // namespace comex
