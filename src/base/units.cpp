#include "base/units.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

namespace comex {
namespace {

// A decimal number at the start of a text. The whole part is kept apart from the fraction so that large sizes stay
// exact: a double holds only 53 bits.
struct Decimal {
  std::uint64_t whole = 0;
  double fraction = 0;
  std::string_view rest;  // what follows, without blanks between
};

std::string_view trim(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const auto first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// Nothing if the text does not begin with a digit, or the whole part does not fit in 64 bits.
std::optional<Decimal> parse_decimal(std::string_view text) {
  Decimal number;
  const char* const end = text.data() + text.size();
  const auto [after, error] = std::from_chars(text.data(), end, number.whole);
  if (error != std::errc{}) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(after - text.data()));

  if (text.size() > 1 && text[0] == '.' && is_digit(text[1])) {
    double place = 0.1;
    std::size_t i = 1;
    for (; i < text.size() && is_digit(text[i]); ++i, place /= 10) number.fraction += (text[i] - '0') * place;
    text.remove_prefix(i);
  }
  number.rest = trim(text);
  return number;
}

// The shift of a size's suffix: "" and "B" are 0, "K", "KB" and "KiB" are 10, and so on.
std::optional<unsigned> suffix_shift(std::string_view suffix) {
  if (suffix.empty() || suffix == "B") return 0;
  constexpr std::string_view kLetters = "KMGTPE";
  const char letter = suffix[0] == 'k' ? 'K' : suffix[0];
  const auto index = kLetters.find(letter);
  if (index == std::string_view::npos) return std::nullopt;
  suffix.remove_prefix(1);
  if (!suffix.empty() && suffix != "B" && suffix != "iB") return std::nullopt;
  return static_cast<unsigned>(10 * (index + 1));
}

Error bad_size(std::string_view text, std::string_view why) {
  return Error{Errc::invalid, fmt::format("'{}' {}; write a size such as 4096, 512M, 4G or 1.5T", text, why)};
}

Error bad_duration(std::string_view text, std::string_view why) {
  return Error{Errc::invalid, fmt::format("'{}' {}; write a duration such as 500ms, 10s or 2m", text, why)};
}

}  // namespace

Expected<std::uint64_t> parse_size(std::string_view text) {
  const auto number = parse_decimal(trim(text));
  if (!number) return bad_size(text, "is not a size");
  const auto shift = suffix_shift(number->rest);
  if (!shift) return bad_size(text, "is not a size");
  if (*shift == 0 && number->fraction != 0) return bad_size(text, "is not a whole number of bytes");

  // The fraction is below one unit, so only the whole part, or the carry of the sum, can overflow.
  if (number->whole > std::numeric_limits<std::uint64_t>::max() >> *shift) return bad_size(text, "is too large");
  const std::uint64_t whole = number->whole << *shift;
  const auto fraction =
      static_cast<std::uint64_t>(std::llround(std::ldexp(number->fraction, static_cast<int>(*shift))));
  if (whole > std::numeric_limits<std::uint64_t>::max() - fraction) return bad_size(text, "is too large");
  return whole + fraction;
}

std::string format_size(std::uint64_t bytes) {
  constexpr std::array kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return fmt::format("{} B", bytes);
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  // 1023.5 would be written as 1024: that is one of the next unit.
  while (value >= 1023.5 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  // The bounds are where rounding adds a digit: 9.996 is written 10.0, not 10.00.
  const int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f} {}", value, decimals, kUnits[unit]);
}

Expected<Millis> parse_duration(std::string_view text) {
  const auto number = parse_decimal(trim(text));
  if (!number) return bad_duration(text, "is not a duration");
  std::uint64_t unit_ms = 0;
  if (number->rest == "ms") {
    unit_ms = 1;
  } else if (number->rest == "s") {
    unit_ms = 1'000;
  } else if (number->rest == "m" || number->rest == "min") {
    unit_ms = 60'000;
  } else if (number->rest == "h") {
    unit_ms = 3'600'000;
  } else {
    return bad_duration(text, number->rest.empty() ? "has no unit" : "is not a duration");
  }
  // A year is more than anything comex waits for, and far from overflowing whatever is computed with it.
  constexpr std::uint64_t kYearMs = 366ULL * 24 * 3'600'000;
  if (number->whole > kYearMs / unit_ms) return bad_duration(text, "is too long");
  const auto fraction_ms = static_cast<std::uint64_t>(std::llround(number->fraction * static_cast<double>(unit_ms)));
  return Millis{static_cast<Millis::rep>(number->whole * unit_ms + fraction_ms)};
}

std::string format_duration(Millis duration) {
  const auto ms = duration.count();
  if (ms < 1'000) return fmt::format("{} ms", ms);
  if (ms < 9'950) return fmt::format("{:.1f} s", static_cast<double>(ms) / 1'000);
  const auto seconds = (ms + 500) / 1'000;
  if (seconds < 60) return fmt::format("{} s", seconds);
  if (seconds < 3'600) return fmt::format("{} min {} s", seconds / 60, seconds % 60);
  return fmt::format("{} h {} min", seconds / 3'600, seconds % 3'600 / 60);
}

}  // namespace comex
