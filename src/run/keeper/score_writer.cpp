#include "run/keeper/score_writer.h"

#include <algorithm>
#include <new>
#include <vector>

namespace comex {
namespace {

// Hands out parts of memory, one after the other.
class Shelf {
 public:
  Shelf(std::span<std::byte> memory, std::size_t used) : memory_(memory), used_(used) {}

  // Whether there is room for all of them is asked first.
  [[nodiscard]] bool fits(std::size_t bytes) const { return bytes <= memory_.size() - used_; }
  template <typename T>
  std::uint32_t put(const std::vector<T>& values) {
    used_ = (used_ + alignof(T) - 1) / alignof(T) * alignof(T);
    const auto at = static_cast<std::uint32_t>(used_);
    std::copy(values.begin(), values.end(), reinterpret_cast<T*>(memory_.data() + used_));
    used_ += values.size() * sizeof(T);
    return at;
  }

 private:
  const std::span<std::byte> memory_;
  std::size_t used_;
};

}  // namespace

ScoreArrays::ScoreArrays(const ProfiledProcess& process) {
  for (const auto& thread : process.threads) {
    for (const std::uint64_t page : thread) pages.push_back(PageKey{page});
  }
  std::sort(pages.begin(), pages.end());
  pages.erase(std::unique(pages.begin(), pages.end()), pages.end());
  number(process);
  find_places();
}

void ScoreArrays::number(const ProfiledProcess& process) {
  for (std::size_t i = 0; i < process.threads.size(); ++i) {
    if (i > 0) order.push_back(Sequence::kBreak);
    for (const std::uint64_t page : process.threads[i]) {
      const auto found = std::lower_bound(pages.begin(), pages.end(), PageKey{page});
      order.push_back(static_cast<std::uint32_t>(found - pages.begin()));
    }
  }
}

// Counts each page's places, and puts them where those of the pages before end.
void ScoreArrays::find_places() {
  first.assign(pages.size() + 1, 0);
  for (const std::uint32_t page : order) {
    if (page != Sequence::kBreak) ++first[page + 1];
  }
  for (std::size_t i = 1; i < first.size(); ++i) first[i] += first[i - 1];
  places.resize(first.back());
  std::vector<std::uint32_t> next(first.begin(), first.end() - 1);
  for (std::size_t place = 0; place < order.size(); ++place) {
    if (order[place] != Sequence::kBreak) places[next[order[place]]++] = static_cast<std::uint32_t>(place);
  }
}

void write_score(const Profile& profile, std::span<std::byte> memory) {
  if (memory.size() < sizeof(Score)) return;
  auto* const score = new (memory.data()) Score;
  Shelf shelf(memory, sizeof(Score));
  for (const ProfiledProcess& process : profile.processes) {
    const ScoreArrays arrays(process);
    if (score->count == score->parts.size() || !shelf.fits(arrays.bytes())) continue;
    score->parts[score->count++] = {.executable = process.executable,
                                    .arguments = process.arguments,
                                    .pages = static_cast<std::uint32_t>(arrays.pages.size()),
                                    .length = static_cast<std::uint32_t>(arrays.order.size()),
                                    .faults = static_cast<std::uint32_t>(arrays.places.size()),
                                    .pages_at = shelf.put(arrays.pages),
                                    .order_at = shelf.put(arrays.order),
                                    .first_at = shelf.put(arrays.first),
                                    .places_at = shelf.put(arrays.places)};
  }
}

}  // namespace comex
