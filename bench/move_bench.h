// `comex bench move`: data goes into the pool and comes back, and every byte is checked. What ./demo shows.
//
// A round writes as much as the pool will hold and reads it all back; more data than that takes several rounds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "fabric/connect.h"

namespace comex::bench {

struct MoveOptions {
  std::vector<Url> pool;  // empty: two nodes of our own
  LinkOptions link;       // how to prove ourselves to the nodes of `pool`
  std::uint64_t bytes = std::uint64_t{2} << 30;
  unsigned threads = 2;
};

struct MoveResult {
  struct Share {
    std::string node;
    std::uint64_t pages = 0;
  };
  std::uint64_t pages = 0;
  std::uint64_t wrong_pages = 0;
  std::uint64_t wrong_bytes = 0;
  unsigned rounds = 0;
  unsigned threads = 0;
  double write_seconds = 0;
  double read_seconds = 0;
  double seconds_waited = 0;  // of write_seconds: for frames of the last round to come round again
  std::vector<Share> spread;  // where the pages were
};

// REQUIRES: an InterruptGuard lives. Shows its progress on stderr. Wrong bytes are a result, not an error.
Expected<MoveResult> bench_move(const MoveOptions& options);

std::string to_text(const MoveResult& result);
nlohmann::ordered_json to_json(const MoveResult& result);

}  // namespace comex::bench
