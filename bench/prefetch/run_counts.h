// What `comex run --stats` says of a run, as far as prefetching goes. Thread-safe: values, functions without state.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/expected.h"

namespace comex::bench {

struct RunCounts {
  // Faults on pages that were not local, by where the page was found.
  std::uint64_t from_staging = 0;
  std::uint64_t from_buffer = 0;
  std::uint64_t from_node = 0;
  std::uint64_t prefetched = 0;  // pages that came before anybody asked for them, zeros among them
  std::uint64_t used = 0;        // ... of which the pager knows that they were used
  double fault_seconds = 0;
  // How long before its use a page of the read buffer was asked for, in microseconds, to the next power of two; nothing
  // where none was used.
  std::optional<double> lead_p50;
  std::optional<double> lead_p95;

  [[nodiscard]] std::uint64_t faults() const { return from_staging + from_buffer + from_node; }
  [[nodiscard]] std::uint64_t for_nothing() const { return prefetched > used ? prefetched - used : 0; }
  // Of the pages that were brought, those that were used; nothing where none was brought.
  [[nodiscard]] std::optional<double> accuracy() const;
  // Of the faults that waited for a node without prefetching, those that did not have to. Below 0: there were more.
  [[nodiscard]] std::optional<double> coverage(const RunCounts& without) const;
};

// The contents of the file. Errc::io when it is not such a file.
Expected<RunCounts> parse_run_counts(const std::string& text);

}  // namespace comex::bench
