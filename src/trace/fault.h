// A fault as a trace has it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace comex {

// Where the page came from: the values of Served (pager/pager.h). They are in files: never renumber.
enum class Origin : std::uint8_t {
  already = 1,   // another thread had brought it
  zeros = 2,     // first touch
  written = 3,   // it was there, and clean
  staged = 4,    // on its way out
  buffered = 5,  // in the read buffer
  remote = 6,    // on a node
  lost = 7,
  failed = 8,
};

inline constexpr std::size_t kOrigins = 9;  // as the size of an array by origin; there is none of value 0

inline constexpr bool is_origin(unsigned value) {
  return value > 0 && value < kOrigins;
}

struct TraceFault {
  static constexpr std::uint32_t kMostAlong = 63;

  std::uint64_t time = 0;     // ns since the trace began
  std::uint64_t page = 0;     // its number
  std::uint32_t process = 0;  // as the trace counts them
  std::uint32_t thread = 0;   // its id
  Origin origin = Origin::already;
  bool write = false;
  std::uint8_t along = 0;   // so many pages came with it,
  std::uint8_t around = 0;  // ... and so many were asked for, to wait in the read buffer

  friend constexpr bool operator==(const TraceFault&, const TraceFault&) = default;
};

}  // namespace comex
