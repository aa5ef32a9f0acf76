// Bytes that can be told from any other: page n of a run with a seed has contents that follow from (seed, n) alone, so
// that nothing need be kept to check them, and a page that came from elsewhere, late or shifted shows.
// Thread-safe: pure functions. About as fast as memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/units.h"

namespace comex::bench {

// Writes the page to `into` (kPageSize bytes).
void make_page(std::uint64_t seed, std::uint64_t page, std::byte* into);

// How many of the page's bytes are wrong: 0 if it is as make_page made it.
std::size_t count_wrong_bytes(std::uint64_t seed, std::uint64_t page, const std::byte* found);

}  // namespace comex::bench
