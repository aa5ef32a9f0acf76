// Sizes and durations: the page, and both as people write them ("512M", "4G", "10s").
// Thread-safe: everything here is a pure function. page constants may be used on the fault path.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/expected.h"

namespace comex {

inline constexpr std::uint64_t kKiB = 1024, kMiB = 1024 * kKiB, kGiB = 1024 * kMiB, kTiB = 1024 * kGiB;

inline constexpr std::size_t kPageShift = 12;
inline constexpr std::size_t kPageSize = std::size_t{1} << kPageShift;

// Reads "4096", "64K", "512M", "4G", "1.5T" (powers of 1024; a trailing B or iB is allowed).
Expected<std::uint64_t> parse_size(std::string_view text);

// Writes a size the way parse_size reads it, rounded to three significant figures: "1.50 GiB".
std::string format_size(std::uint64_t bytes);

// Reads "500ms", "10s", "1.5m", "2h". A bare number is refused: nobody can tell which unit was meant.
Expected<Millis> parse_duration(std::string_view text);

// Writes a duration for people, with the unit that suits it: "350 ms", "9.5 s", "3 min 20 s", "2 h 5 min".
std::string format_duration(Millis duration);

}  // namespace comex
