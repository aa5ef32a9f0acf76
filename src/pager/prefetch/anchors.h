// Pages by where they are from run to run. The kernel moves a program's memory about in three pieces: the program
// itself with its data, the heap that brk() makes, and what is mapped. A page is named by the piece, and how far it is
// from a place in it that is the program's own: its anchor.
//
// Thread safety: a value. Fault path: yes.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "pager/page.h"

namespace comex {

// A page of a program, in whichever run of it.
struct PageKey {
  std::uint64_t value = 0;
  friend constexpr auto operator<=>(PageKey, PageKey) = default;
};

struct Anchors {
  enum Piece : std::uint8_t { image, heap, mappings };
  static constexpr std::size_t kPieces = 3;

  std::array<PageNo, kPieces> at;

  [[nodiscard]] PageKey key_of(PageNo page) const noexcept {
    const Piece piece = piece_of(page);
    return PageKey{std::uint64_t{piece} << kPieceAt | ((page - at[piece]) & kDistance)};
  }
  // Of a key from anywhere: any page, or none that there is.
  [[nodiscard]] PageNo page_of(PageKey key) const noexcept {
    const auto distance = static_cast<std::int64_t>(key.value << (64 - kPieceAt)) >> (64 - kPieceAt);
    const std::size_t piece = std::min<std::size_t>(key.value >> kPieceAt, kPieces - 1);
    return at[piece] + static_cast<std::uint64_t>(distance);
  }

 private:
  static constexpr unsigned kPieceAt = 56;
  static constexpr std::uint64_t kDistance = (std::uint64_t{1} << kPieceAt) - 1;

  static std::uint64_t between(PageNo a, PageNo b) noexcept { return a < b ? b - a : a - b; }
  // The data of a program may be large, and end where its heap begins.
  [[nodiscard]] Piece piece_of(PageNo page) const noexcept {
    const std::uint64_t low = std::min(between(page, at[image]), between(page, at[heap]));
    if (between(page, at[mappings]) < low) return mappings;
    return page < at[heap] ? image : heap;
  }
};

}  // namespace comex
