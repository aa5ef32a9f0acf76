// Says so when memory that a node wants to have back does not come.
//
// Thread safety: none; belongs to one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"

namespace comex {

class ReturnWatch {
 public:
  explicit ReturnWatch(Millis patience = Millis(10'000)) : patience_(patience) {}

  // What to tell, once, about so many bytes that `clients` have and should give back.
  std::optional<std::string> look(std::uint64_t missing, std::uint64_t clients, Clock::time_point now);

 private:
  const Millis patience_;  // without any progress
  std::uint64_t missing_ = 0;
  Clock::time_point since_{};  // when it was that much for the first time
  bool told_ = false;
};

}  // namespace comex
