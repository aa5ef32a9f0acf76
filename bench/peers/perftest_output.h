// What the programs of perftest print. Thread-safe: functions without state.
#pragma once

#include <string>

#include "base/expected.h"
#include "bench/samples.h"

namespace comex::bench {

// Of ib_read_lat: t_typical is the middle one.
Expected<Summary> parse_perftest_latency(const std::string& output);
// Of ib_read_bw and ib_write_bw: the average, bytes per second.
Expected<double> parse_perftest_bandwidth(const std::string& output);

}  // namespace comex::bench
