// A summary of a trace, for people and for programs.
#pragma once

#include <string>

#include "trace/summary.h"

namespace comex {

std::string to_text(const TraceSummary& summary);
std::string to_json(const TraceSummary& summary);

}  // namespace comex
