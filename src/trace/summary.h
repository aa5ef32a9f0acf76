// What a trace says, added up.
//
// Thread safety: values.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/expected.h"
#include "trace/reader.h"

namespace comex {

inline double in_seconds(std::uint64_t nanos) {
  return static_cast<double>(nanos) / 1e9;
}

// Which faults are meant.
struct TraceFilter {
  std::optional<std::uint32_t> pid{};
  std::uint64_t from = 0;  // ns since the start
  std::uint64_t to = std::numeric_limits<std::uint64_t>::max();
};

// How a fault follows those before it in its thread. Only faults on pages that were not there are looked at.
struct TraceSteps {
  std::uint64_t sequential = 0;  // goes on where one of the last few left off, what came along with that included
  std::uint64_t strided = 0;     // as far from the last one as that was from the one before
  std::uint64_t other = 0;

  void add(const TraceSteps& more);
  [[nodiscard]] std::uint64_t all() const { return sequential + strided + other; }
};

struct TraceFigures {
  std::array<std::uint64_t, kOrigins> by_origin{};
  std::uint64_t writes = 0;
  std::uint64_t along = 0;   // pages that came with others, into memory
  std::uint64_t around = 0;  // ... asked for, into the read buffer
  TraceSteps steps;

  void add(const TraceFigures& more);
  [[nodiscard]] std::uint64_t faults() const;
};

// Pages that are near each other.
struct TraceRegion {
  std::size_t process = 0;  // of TraceSummary::processes
  std::uint64_t first = 0;  // page
  std::uint64_t last = 0;
  std::uint64_t pages = 0;  // different ones that were faulted on
  std::uint64_t faults = 0;
};

struct TraceProcessSummary {
  TraceProcess process;
  std::map<std::uint32_t, TraceFigures> threads;  // by id
  std::uint64_t dropped = 0;

  [[nodiscard]] TraceFigures figures() const;
};

struct TraceSummary {
  TraceHeader header;
  std::vector<TraceProcessSummary> processes;  // those with faults, by number of faults
  std::vector<TraceRegion> regions;            // by number of faults
  std::uint64_t end = 0;                       // the time of the last fault
  bool cut = false;                            // the file does not end as it should

  [[nodiscard]] TraceFigures figures() const;
  [[nodiscard]] std::uint64_t dropped() const;
};

Expected<TraceSummary> summarise(const TraceReader& reader, const TraceFilter& filter);

// As people and programs are told: "first touch", "first_touch".
std::string name_of(Origin origin);
std::string key_of(Origin origin);

}  // namespace comex
