// How a fuzz target says that a property is broken: one line, then abort, which libFuzzer reports with the input.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace comex::fuzz {

inline void require(bool holds, const char* property) {
  if (holds) return;
  std::fprintf(stderr, "broken property: %s\n", property);
  std::abort();
}

}  // namespace comex::fuzz
