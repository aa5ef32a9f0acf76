#include "node/return_watch.h"

#include <fmt/format.h>

#include <utility>

#include "base/units.h"

namespace comex {

std::optional<std::string> ReturnWatch::look(std::uint64_t missing, std::uint64_t clients, Clock::time_point now) {
  const std::uint64_t before = std::exchange(missing_, missing);
  if (missing == 0) {
    if (!std::exchange(told_, false)) return std::nullopt;
    return "all that was to be given back has come";
  }
  if (before == 0 || missing < before) since_ = now;
  if (told_ || now < since_ + patience_) return std::nullopt;
  told_ = true;
  return fmt::format(
      "{} clients do not give back {} for lack of another place, or because they are stopped; add a "
      "memory node, or end them (`comex status --json` lists them)",
      clients, format_size(missing));
}

}  // namespace comex
