// A graph to search through, of the R-MAT kind (Chakrabarti, Zhan and Faloutsos 2004): few vertices have many edges,
// most have few, as in graphs of people and pages. Its rows are written one after the other, so that making it is
// quick even where it does not fit; and any edge can be computed again, so that all of them can be checked.
//
// An edge of R-MAT is drawn bit by bit: (0,0), (0,1), (1,0), (1,1) with the chances a, b, c, d. Drawing the source
// first and then the target given the source is the same; here a source has as many edges as it would have on average.
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "bench/paging/load_memory.h"

namespace comex::bench {

class LoadGraph {
 public:
  // Such that the graph, and `bytes_per_vertex` for whoever uses it, take about `bytes`.
  LoadGraph(std::uint64_t bytes, std::uint64_t bytes_per_vertex, std::uint64_t seed);

  [[nodiscard]] bool ready() const { return rows_ && targets_; }
  void make();
  // One line; empty when every edge is as it was made.
  [[nodiscard]] std::string check() const;

  [[nodiscard]] std::uint32_t vertices() const { return std::uint32_t{1} << scale_; }
  [[nodiscard]] std::uint32_t busiest() const { return label(0); }
  [[nodiscard]] std::span<const std::uint32_t> row(std::uint32_t vertex) const {
    return {targets_.data() + rows_[vertex], rows_[vertex + 1] - rows_[vertex]};
  }
  [[nodiscard]] std::byte* data() { return reinterpret_cast<std::byte*>(targets_.data()); }

 private:
  // Busy vertices are those with few bits; labels scatter them.
  [[nodiscard]] std::uint32_t label(std::uint32_t vertex) const { return (vertex * kFactor) & (vertices() - 1); }
  [[nodiscard]] std::uint32_t unlabel(std::uint32_t label) const { return (label * kInverse) & (vertices() - 1); }
  [[nodiscard]] std::uint32_t degree(std::uint32_t label) const;
  [[nodiscard]] std::uint32_t target(std::uint32_t label, std::uint32_t index) const;

  static constexpr std::uint32_t kFactor = 0x9e3779b1;
  static constexpr std::uint32_t kInverse = 0x0e8b2f51;
  static_assert(kFactor * kInverse == 1);

  unsigned scale_;  // two to this many vertices
  std::uint64_t edges_;
  std::uint64_t seed_;
  LoadMemory<std::uint32_t> rows_;
  LoadMemory<std::uint32_t> targets_;
};

}  // namespace comex::bench
