// How pages are coded across nodes: a column is `data` pages and `parity` pages that are made of them, each on a node
// of its own. Any `data` of them give back the others. Without parity there is no code: a column is one page.
#pragma once

#include <cstdint>

namespace comex {

struct Code {
  static constexpr std::uint32_t kMostData = 5;
  static constexpr std::uint32_t kMostParity = 2;
  static constexpr std::uint32_t kMostNodes = 6;

  std::uint32_t data = 1;
  std::uint32_t parity = 0;

  [[nodiscard]] constexpr bool coded() const { return parity > 0; }
  [[nodiscard]] constexpr std::uint32_t nodes() const { return data + parity; }
  [[nodiscard]] constexpr bool valid() const {
    if (parity == 0) return data == 1;
    return data >= 2 && data <= kMostData && parity <= kMostParity && nodes() <= kMostNodes;
  }
  // Pages are written in whole columns.
  [[nodiscard]] constexpr std::uint32_t round_up(std::uint32_t pages) const { return (pages + data - 1) / data * data; }
  [[nodiscard]] constexpr std::uint32_t round_down(std::uint32_t pages) const { return pages - pages % data; }

  friend constexpr bool operator==(Code, Code) = default;
};

}  // namespace comex
