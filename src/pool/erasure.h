// The arithmetic of a Code, on pages: Reed-Solomon over GF(2^8), as ISA-L has it (gf_gen_rs_matrix): the first parity
// page is the sum of the data pages, the second that of 2^i times the i-th. With as few as two parity pages every
// column that has lost as many can be solved.
//
// Why not ISA-L itself: this runs inside programs, which get no library of ours but one, and Debian has no static
// library of it. The tests compare the two.
//
// Thread safety: values. Fault path: all of it; nothing is allocated.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "pool/code.h"

namespace comex {

// What each of `data` pages is multiplied with in a sum.
using Factors = std::array<std::uint8_t, Code::kMostData>;
using Pages = std::array<const std::byte*, Code::kMostData>;

class Erasure {
 public:
  explicit constexpr Erasure(Code code) : code_(code) {}

  // Of the page at a position of the column: data from 0 on, then parity.
  [[nodiscard]] Factors row(std::uint32_t position) const noexcept;
  // How the page at a position is made of those at `data` others, which are given in any order.
  // REQUIRES: they differ from each other.
  [[nodiscard]] Factors solve(std::uint32_t wanted, std::span<const std::uint32_t> others) const noexcept;
  // The sum of pages, each times its factor. REQUIRES: none of them is `into`; all are aligned to 16 bytes.
  void combine(const Factors& factors, const Pages& pages, std::byte* into) const noexcept;

 private:
  Code code_;
};

}  // namespace comex
