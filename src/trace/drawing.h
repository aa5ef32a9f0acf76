// A trace as a chart: pages over time, in the color of where they came from.
#pragma once

#include "base/expected.h"
#include "plot/chart.h"
#include "trace/summary.h"

namespace comex {

// `summary` is of the same trace and the same filter. Reads the trace once more.
Expected<plot::Chart> draw(const TraceReader& reader, const TraceFilter& filter, const TraceSummary& summary);

}  // namespace comex
