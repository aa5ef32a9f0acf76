// The sealers by name.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace comex {

enum class Sealing : std::uint8_t { none, checksum, cipher };

// What users say of checksums: of a pool that is reached over a network, or always, or never.
enum class Checksums : std::uint8_t { automatic, on, off };

inline std::optional<Checksums> parse_checksums(std::string_view name) {
  if (name == "auto") return Checksums::automatic;
  if (name == "on") return Checksums::on;
  if (name == "off") return Checksums::off;
  return std::nullopt;
}

// `network`: whether pages leave this machine. What is encrypted needs no checksum.
constexpr Sealing sealing_for(bool encrypt, Checksums checksums, bool network) {
  if (encrypt) return Sealing::cipher;
  if (checksums == Checksums::on || (checksums == Checksums::automatic && network)) return Sealing::checksum;
  return Sealing::none;
}

}  // namespace comex
