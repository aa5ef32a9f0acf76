// No seals: what comes back is taken for what left. For users who want it so.
#pragma once

#include "pager/seal/sealer.h"

namespace comex {

class NoSeal final : public Sealer {
 public:
  [[nodiscard]] std::size_t size() const noexcept override { return 0; }
  void seal(std::byte*, std::byte*) const noexcept override {}
  [[nodiscard]] bool open(std::byte*, const std::byte*) const noexcept override { return true; }
};

// There is one, for as long as the process lives.
inline constinit const NoSeal kNoSeal{};

}  // namespace comex
