// Local memory for transfers, with contents that can be checked byte for byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "fabric/link.h"

namespace comex::test {

// What page number `page` of seed `seed` holds. No two (seed, page) hold the same, and none is zeros.
void fill_page(std::byte* page, std::uint64_t seed, std::uint64_t number);
[[nodiscard]] bool page_is(const std::byte* page, std::uint64_t seed, std::uint64_t number);
[[nodiscard]] bool page_is_zeros(const std::byte* page);

// A run of pages of this process. Page i of it is page i of a seed.
class Pages {
 public:
  explicit Pages(std::uint32_t count) : bytes_(std::size_t{count} << kPageShift), count_(count) {}
  Pages(std::uint32_t count, std::uint64_t seed) : Pages(count) { fill(seed); }

  [[nodiscard]] std::byte* data() { return bytes_.data(); }
  [[nodiscard]] std::byte* page(std::uint32_t index) { return bytes_.data() + (std::size_t{index} << kPageShift); }
  [[nodiscard]] std::uint32_t count() const { return count_; }
  [[nodiscard]] std::size_t size() const { return bytes_.size(); }

  void fill(std::uint64_t seed);
  void clear();
  [[nodiscard]] bool are(std::uint64_t seed) const;
  [[nodiscard]] bool are_zeros() const;

 private:
  std::vector<std::byte> bytes_;
  std::uint32_t count_;
};

// One transfer between `pages` and frames of the node, waited for. Splits what is larger than one transfer may be.
Errc write(Link& link, const Extent& frames, Pages& pages);
Errc read(Link& link, const Extent& frames, Pages& pages);

[[nodiscard]] std::uint64_t total_frames(const std::vector<Extent>& extents);

}  // namespace comex::test
