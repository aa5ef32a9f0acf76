// The seal is a checksum: half of XXH3's 64 bits. Of pages that were changed by accident, one in 2^32 gets past it;
// against a node that wants to deceive it is of no use.
#pragma once

#include <cstdint>

#include "pager/seal/sealer.h"

namespace comex {

class Checksum final : public Sealer {
 public:
  using Sum = std::uint32_t;

  [[nodiscard]] std::size_t size() const noexcept override { return sizeof(Sum); }
  void seal(std::byte* page, std::byte* seal) const noexcept override;
  [[nodiscard]] bool open(std::byte* page, const std::byte* seal) const noexcept override;
};

}  // namespace comex
