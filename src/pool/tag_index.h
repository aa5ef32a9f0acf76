// From a page's tag to the staging slot that holds it: a small hash table of fixed size (linear probing, deletion by
// shifting back, so that a miss stays short however often pages come and go).
//
// Thread safety: none; staging guards it. Fault path: yes, nothing is allocated after construction.
// Invariant: at most half full, so every search ends at an empty cell soon.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <vector>

namespace comex {

class TagIndex {
 public:
  // For up to `entries` tags at a time.
  explicit TagIndex(std::uint32_t entries) : cells_(std::bit_ceil(2 * entries)) {}

  [[nodiscard]] std::optional<std::uint32_t> find(std::uint64_t tag) const noexcept {
    const Cell& cell = cells_[locate(tag)];
    if (cell.slot == kEmpty) return std::nullopt;
    return cell.slot;
  }

  // Newest wins: an entry of the same tag is replaced. REQUIRES: fewer than `entries` others.
  void put(std::uint64_t tag, std::uint32_t slot) noexcept { cells_[locate(tag)] = Cell{tag, slot}; }

  // Removes the tag if it still leads to `slot`.
  void erase(std::uint64_t tag, std::uint32_t slot) noexcept {
    std::size_t hole = locate(tag);
    if (cells_[hole].slot != slot) return;
    // Moves up each later entry of the cluster that is allowed in the hole: one whose home is not after it.
    for (std::size_t at = next(hole); cells_[at].slot != kEmpty; at = next(at)) {
      const std::size_t home = home_of(cells_[at].tag);
      if (((at - home) & mask()) < ((at - hole) & mask())) continue;
      cells_[hole] = cells_[at];
      hole = at;
    }
    cells_[hole].slot = kEmpty;
  }

 private:
  static constexpr std::uint32_t kEmpty = UINT32_MAX;
  struct Cell {
    std::uint64_t tag = 0;
    std::uint32_t slot = kEmpty;
  };

  [[nodiscard]] std::size_t mask() const noexcept { return cells_.size() - 1; }
  [[nodiscard]] std::size_t next(std::size_t at) const noexcept { return (at + 1) & mask(); }
  [[nodiscard]] std::size_t home_of(std::uint64_t tag) const noexcept {
    return (tag * 0x9e3779b97f4a7c15 >> 32) & mask();  // Fibonacci hashing: page numbers come in sequences
  }
  // The cell of this tag, or the empty one where it would go.
  [[nodiscard]] std::size_t locate(std::uint64_t tag) const noexcept {
    std::size_t at = home_of(tag);
    while (cells_[at].slot != kEmpty && cells_[at].tag != tag) at = next(at);
    return at;
  }

  std::vector<Cell> cells_;
};

}  // namespace comex
