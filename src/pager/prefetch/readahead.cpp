#include "pager/prefetch/readahead.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace comex {

Plan ReadAhead::plan(History& history, const Miss& miss) const noexcept {
  Plan plan;
  if (miss.from == Miss::From::zeros) return plan;
  const PageNo page = miss.page;
  FaultStream& stream = history.streams.front();
  if (stream.last == PageNo{}) stream.hits = static_cast<std::uint16_t>(config_.first_hits);
  const PageNo before = std::exchange(stream.last, page);
  if (miss.from == Miss::From::staging) return plan;
  if (miss.from == Miss::From::buffer) {
    stream.hits = static_cast<std::uint16_t>(std::min<std::uint32_t>(stream.hits + 1U, config_.most_hits));
    return plan;
  }
  const std::uint32_t size = window(stream, before);
  stream.window = static_cast<std::uint16_t>(size);
  stream.hits = 0;
  if (before + 1 == page) {
    plan.after = size - 1;
  } else if (page + 1 == before) {
    plan.before = size - 1;
  } else {
    plan.before = (size - 1) / 2;
    plan.after = size - 1 - plan.before;
  }
  const std::uint64_t index = page.value % config_.table;
  plan.before = static_cast<std::uint32_t>(std::min<std::uint64_t>(plan.before, index));
  plan.after = static_cast<std::uint32_t>(std::min<std::uint64_t>(plan.after, config_.table - 1 - index));
  plan.mapped = false;
  return plan;
}

std::uint32_t ReadAhead::window(const FaultStream& stream, PageNo before) const noexcept {
  const bool adjacent = before + 1 == stream.last || stream.last + 1 == before;
  std::uint32_t size = adjacent ? 2 : 1;
  if (stream.hits > 0) size = std::max(4U, std::bit_ceil(stream.hits + 2U));
  return std::max(std::min(size, config_.most), stream.window / 2U);
}

}  // namespace comex
