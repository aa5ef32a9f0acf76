// Makes a score of a profile: see run/score.h. Thread safety: values, and a function without state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "run/score.h"
#include "trace/profile.h"

namespace comex {

// What Sequence reads (pager/prefetch/sequence.h), of one process.
struct ScoreArrays {
  std::vector<PageKey> pages;
  std::vector<std::uint32_t> order;
  std::vector<std::uint32_t> first;
  std::vector<std::uint32_t> places;

  explicit ScoreArrays(const ProfiledProcess& process);
  [[nodiscard]] Sequence sequence() const { return Sequence({pages, order, first, places}); }
  [[nodiscard]] std::size_t bytes() const {
    constexpr std::size_t kGaps = 64;  // between them
    return pages.size() * sizeof(PageKey) + (order.size() + first.size() + places.size()) * sizeof(std::uint32_t) +
           kGaps;
  }

 private:
  void number(const ProfiledProcess& process);
  void find_places();
};

// Into memory that is all zeros. Processes for which there is no room are left out.
// REQUIRES: `memory` is aligned as a page, and Score::kMostBytes long or less.
void write_score(const Profile& profile, std::span<std::byte> memory);

}  // namespace comex
