// What happened while a program ran, for its user: JSON for programs (--stats), a few lines for people (--summary).
// Thread-safe: pure functions.
#pragma once

#include <map>
#include <string>

#include "base/clock.h"
#include "run/keeper/census.h"
#include "run/keeper/keeper_server.h"

namespace comex {

struct RunReport {
  std::string program;
  std::uint64_t local = 0;       // bytes: the budget
  std::uint64_t local_peak = 0;  // bytes
  Millis took{0};
  std::map<std::uint16_t, std::string> nodes;  // their URLs, by the id of the session
  std::uint32_t replicas = 1;
  Code code;
  std::string backup;   // its folder; empty: there is none
  KeeperStatus status;  // of the last
};

std::string to_json(const RunReport& report, const Census& census);
std::string to_summary(const RunReport& report, const Census& census);

}  // namespace comex
