// Places for pages along an axis from 0 to 1, where what lies between regions far apart is left out: of the addresses
// that a program could use it uses little, here and there.
#pragma once

#include <cstdint>
#include <vector>

#include "plot/scale.h"

namespace comex {

struct PageSpan {
  std::uint64_t first = 0;
  std::uint64_t last = 0;
};

class AddressMap {
 public:
  // The spans in any order; they may overlap.
  AddressMap(std::vector<PageSpan> spans, std::uint32_t page_size);

  // REQUIRES: the page is in one of the spans.
  [[nodiscard]] double place(std::uint64_t page) const;
  // Addresses where regions begin, and how far it is from there, at least `apart` from each other.
  [[nodiscard]] std::vector<plot::Tick> ticks(double apart) const;
  // Where something is left out.
  [[nodiscard]] std::vector<double> breaks() const;

 private:
  struct Region {
    PageSpan pages;
    double from = 0;
    double to = 0;
  };
  std::uint64_t page_size_;
  std::vector<Region> regions_;  // by address
};

}  // namespace comex
