// A Code as people write it: "4+1".
#pragma once

#include <fmt/format.h>

#include <optional>
#include <string>
#include <string_view>

#include "pool/code.h"

namespace comex {

inline std::string to_text(Code code) {
  return fmt::format("{}+{}", code.data, code.parity);
}

// Nothing if it is none that can be used.
inline std::optional<Code> parse_code(std::string_view text) {
  if (text.size() != 3 || text[1] != '+' || text[0] < '0' || text[0] > '9' || text[2] < '0' || text[2] > '9') return {};
  const Code code{static_cast<std::uint32_t>(text[0] - '0'), static_cast<std::uint32_t>(text[2] - '0')};
  return code.coded() && code.valid() ? std::optional(code) : std::nullopt;
}

}  // namespace comex
