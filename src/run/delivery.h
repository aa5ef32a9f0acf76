// The two ways in which faults of a program are delivered: to the thread that touched, as a SIGBUS (inline), or to
// threads that read messages while it waits (message). See "Inside a program" in docs/architecture.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace comex {

enum class Delivery : std::uint8_t { inline_signal, message };

// As users name them.
inline std::optional<Delivery> parse_delivery(std::string_view name) {
  if (name == "inline") return Delivery::inline_signal;
  if (name == "message") return Delivery::message;
  return std::nullopt;
}

}  // namespace comex
