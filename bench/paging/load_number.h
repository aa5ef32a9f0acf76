// Numbers on the command lines of the loads. Thread-safe: a function without state.
#pragma once

#include <charconv>
#include <cstdint>
#include <string_view>

namespace comex::bench {

// "512", "4K", "1M", "2G". False if it is none.
inline bool read_number(std::string_view text, std::uint64_t& number) {
  unsigned shift = 0;
  if (text.ends_with('K')) shift = 10;
  if (text.ends_with('M')) shift = 20;
  if (text.ends_with('G')) shift = 30;
  if (shift != 0) text.remove_suffix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number > (~std::uint64_t{0} >> shift)) return false;
  number <<= shift;
  return true;
}

}  // namespace comex::bench
