// What a keeper is told by the one that starts it, and how: the descriptors it is born with, and a text in one of them.
#pragma once

#include <cstdint>
#include <string>

#include "base/expected.h"
#include "pool/code.h"
#include "pool/pool.h"
#include "run/backup/backup.h"

namespace comex {

// From kFirstKeeperFile on, in this order. One that is not needed is closed.
enum class KeeperFile : int {
  listener,  // where processes come in
  room,      // run/room.h
  program,   // a pidfd
  report,    // a pipe: whether it is ready; see KeeperReport
  options,   // KeeperOptions
  stats,     // where to write what happened, at the end
  trace,     // where to write faults, as they come
  done,      // held until all of that is done
};
inline constexpr int kFirstKeeperFile = 3;
inline constexpr int kKeeperFiles = 8;
constexpr int number_of(KeeperFile file) noexcept {
  return kFirstKeeperFile + static_cast<int>(file);
}

struct KeeperOptions {
  Code code;                // how pages are coded; then the pool is for as many copies as it has nodes
  PoolConfig pool;          // nodes, link and copies count; no nodes: one of our own, for as long as the program runs
  std::uint64_t local = 0;  // bytes: the budget of the program
  std::uint64_t own_memory = 0;  // bytes that a node of our own lends
  std::uint32_t stock = 0;       // frames of a node that are kept at hand before more are asked for; 0: as usual
  BackupConfig backup;
  std::string program;   // its name, for reports
  std::string command;   // ... and its arguments
  std::string log;       // level
  std::string profile;   // a file: what an earlier run did, and what this one does; empty: none
  bool relay = false;    // see KeeperConfig
  bool summary = false;  // say on stderr what happened, at the end
  bool later = false;    // the pool was seen, and is for when a process needs it; if it is away then, it may come back

  // Of each page.
  [[nodiscard]] std::uint32_t copies() const { return code.coded() ? 1 : pool.copies; }
};

std::string to_bytes(const KeeperOptions& options);
Expected<KeeperOptions> keeper_options_from(const std::string& bytes);

// What the keeper says when it is ready, or why it is not: one message in the pipe.
struct KeeperReport {
  Errc code = Errc::ok;
  std::string text;
};

std::string to_bytes(const KeeperReport& report);
KeeperReport keeper_report_from(const std::string& bytes);

}  // namespace comex
