// Asks memory nodes how they are, all at once: for the commands that show the pool.
// Thread-safe.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "fabric/connect.h"
#include "fabric/url.h"

namespace comex {

struct NodeReport {
  Url url;
  std::optional<wire::StatusReply> status;  // not set: unreachable
  std::string error;
  std::uint64_t boot_id = 0;
  Nanos round_trip = Nanos::max();
};

// Takes as long as the slowest, at most the options' time-outs.
std::vector<NodeReport> ask_nodes(const std::vector<Url>& urls, const LinkOptions& options);

}  // namespace comex
