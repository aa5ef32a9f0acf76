// The client of redis_program.h: fills a server with values that follow from their keys, asks for them, and checks what
// it gets. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/expected.h"

namespace comex::bench {

inline constexpr std::size_t kRedisValueBytes = 1000;

struct RedisAsked {
  double seconds = 0;        // of asking
  std::uint64_t result = 0;  // the same wherever all values were right
};

// Waits for the server at this socket, fills it with `keys` keys, asks as often, and ends the server, whatever happens.
Expected<RedisAsked> ask_redis(const std::string& socket, std::uint64_t keys);

}  // namespace comex::bench
