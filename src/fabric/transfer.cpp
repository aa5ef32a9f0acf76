#include "fabric/transfer.h"

#include "wire/message.h"

namespace comex {

std::uint32_t Transfer::pages() const {
  std::uint32_t pages = 0;
  for (const auto& segment : segments) pages += segment.count;
  return pages;
}

Errc Transfer::check() const noexcept {
  std::uint64_t pages = 0;
  for (const auto& segment : segments) {
    const bool wraps = std::uint64_t{segment.first.value} + segment.count > std::uint64_t{UINT32_MAX} + 1;
    if (segment.count == 0 || segment.local == nullptr || wraps) return Errc::invalid;
    pages += segment.count;
  }
  const bool fits = !segments.empty() && segments.size() <= wire::kMaxSegments && pages <= wire::kMaxTransferPages;
  return fits ? Errc::ok : Errc::invalid;
}

}  // namespace comex
