// The shared secret of a pool, kept in a file that only its owner can read.
// Thread-safe.
#pragma once

#include <cstddef>
#include <string>

#include "base/expected.h"

namespace comex {

inline constexpr std::size_t kShortestSecret = 16;    // bytes; less can be guessed off line from one handshake
inline constexpr std::size_t kLongestSecret = 4'096;  // more is a wrong file

// The bytes of the secret, without one trailing newline. Refuses a file that others can read, and a secret that is too
// short; the error says which command puts it right.
Expected<std::string> read_secret(const std::string& path);

}  // namespace comex
