// Numbers in as few bytes as they need, as the files of this layer have them: seven bits in a byte, the lowest first,
// and 128 in each but the last.
//
// Thread safety: functions without state.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "wire/codec.h"

namespace comex {

inline void put_varint(std::vector<std::byte>& to, std::uint64_t value) {
  for (; value >= 128; value >>= 7) to.push_back(static_cast<std::byte>(value | 128));
  to.push_back(static_cast<std::byte>(value));
}

// Zigzag: small ones are short, whatever their sign.
inline void put_difference(std::vector<std::byte>& to, std::uint64_t from, std::uint64_t value) {
  const auto difference = static_cast<std::int64_t>(value - from);
  put_varint(to, static_cast<std::uint64_t>(difference) << 1 ^ static_cast<std::uint64_t>(difference >> 63));
}

// Nothing, if it does not end, or is longer than 64 bits are.
inline std::optional<std::uint64_t> get_varint(wire::Reader& from) {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    const std::uint64_t byte = from.get<std::uint8_t>();
    if (!from.ok() || (shift == 63 && byte > 1)) return std::nullopt;
    value |= (byte & 127) << shift;
    if (byte < 128) return value;
  }
  return std::nullopt;
}

inline bool add_difference(wire::Reader& from, std::uint64_t& value) {
  const auto zigzag = get_varint(from);
  if (!zigzag) return false;
  value += *zigzag >> 1 ^ (~(*zigzag & 1) + 1);
  return true;
}

}  // namespace comex
