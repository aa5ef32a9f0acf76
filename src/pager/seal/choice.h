// The sealers by name.
#pragma once

#include <cstdint>

namespace comex {

enum class Sealing : std::uint8_t { none, checksum, cipher };

// What is encrypted needs no checksum.
constexpr Sealing sealing_for(bool encrypt, bool checksums) {
  if (encrypt) return Sealing::cipher;
  return checksums ? Sealing::checksum : Sealing::none;
}

}  // namespace comex
