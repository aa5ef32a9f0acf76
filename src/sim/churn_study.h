// A day of one memory node with many clients that grow and shrink: whether it still has extents of 2^7 frames. The
// ledger, the buddy system and the compaction are those of a node (node/ledger.h), on a simulated clock. Clients do as
// the keeper of a program does: they ask for extents of 2^7 frames, ahead of need, cut them into chunks of 2^6, and
// return a chunk when its last page is gone, which is at random; those that are asked to move a chunk do so if they get
// another place for it on this node, at the rate that a keeper moves at, and ask for holes of 2^6 meanwhile.
#pragma once

#include <cstdint>

namespace comex::sim {

struct ChurnStudy {
  std::uint32_t slabs = 256;  // of 2 MiB
  std::uint32_t clients = 16;
  bool shm = false;    // clients on shared memory, each in slabs of its own; else by TCP
  double use = 0.88;   // of the node's memory, in the mean
  double swing = 0.5;  // a client's size goes up and down by so much
  double hours = 24;
  double turnover = 0.001;               // of a client's chunks that are given up and wanted anew in a second
  std::uint32_t moves_per_second = 256;  // chunks, of one client: 64 MiB
  bool compaction = true;
  std::uint64_t seed = 1;
};

struct ChurnResult {
  double mean_use = 0;
  double served = 0;           // share of the seconds in which an extent of 2^7 could be had
  double served_below_90 = 0;  // ... of those in which the node was less than 90 % full
  double refused = 0;          // share of the requests, of either kind, that got nothing, below 90 %
  double moved_per_hour = 0;   // chunks that clients had to move, as a share of those in use
  std::uint64_t extents = 0;   // that were granted
};

ChurnResult simulate_churn(const ChurnStudy& study);

}  // namespace comex::sim
