// Days of a cluster: programs that come, grow, shrink and end, nodes that die and come back. Which node gets what is
// decided as the pool does (pool/placement.h), which frames as a node does (node/buddy.h); time, links and programs are
// simulated, in seconds. Frames move in chunks of 2^7, the least that a node hands out. Memory is on a scale of 1:256,
// so that the whole fits into one machine: a simulated node of 256 MiB stands for one that lends 64 GiB.
//
// Copies of a chunk are in different failure domains. When a node dies, programs notice after a while and make the lost
// copies again from the others, at a limited rate each, while everything goes on. A chunk without any copy is lost, and
// the program with it: it begins anew.
#pragma once

#include <cstdint>
#include <vector>

#include "pool/mend_queue.h"

namespace comex::sim {

struct ClusterStudy {
  static constexpr std::uint32_t kMostCopies = 3;

  std::uint32_t nodes = 1000;
  std::uint32_t domains = 50;  // node i is in domain i % domains
  std::uint32_t clients = 10'000;
  std::uint32_t node_slabs = 128;  // of 2 MiB
  double use = 0.7;                // of all memory, copies included, in the mean
  std::uint32_t copies = 2;
  double days = 1;
  double change_minutes = 10;                      // between two changes of a program's size
  double life_hours = 6;                           // of a program
  double node_days = 30;                           // between two failures of a node; 0: none fails
  double node_back_minutes = 10;                   // empty
  double notice_seconds = 10;                      // until a program knows that it is lost: the lease
  double repair_mib_per_second = kMendRate >> 20;  // of one program, before it is brought to scale
  std::uint64_t seed = 1;
};

struct ClusterResult {
  struct Sample {
    double hours = 0;
    double mean_use = 0;  // share of the memory of nodes that are up
    double most_use = 0;  // of the fullest node
  };

  std::vector<Sample> samples;  // every ten minutes
  double balance = 0;           // the fullest node beside the mean, in the mean over time
  double worst_balance = 0;
  std::uint64_t asked = 0;      // chunks that programs wanted
  std::uint64_t refused = 0;    // ... and did not get
  double use_when_refused = 1;  // the least use of the cluster at which one was refused
  std::uint64_t failures = 0;
  std::uint64_t copies_lost = 0;  // chunks
  std::uint64_t copies_made = 0;
  std::vector<double> repair_seconds;  // of each failure: until all that it took had its copies again
  std::uint64_t chunks_lost = 0;       // without any copy
  std::uint64_t programs_lost = 0;
  double chunk_days = 0;  // chunks held, times days: what the losses are out of
};

inline constexpr std::uint32_t kChunkFrames = 1U << 7;
inline constexpr double kScale = 256;

ClusterResult simulate_cluster(const ClusterStudy& study);

}  // namespace comex::sim
