// A set of addresses, as sorted intervals that neither overlap nor touch. Of fixed capacity: what does not fit is left
// out, which callers must be able to bear.
//
// Thread safety: none. Fault path: yes.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace comex::runtime {

class Intervals {
 public:
  struct Interval {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
  };

  void add(std::uint64_t begin, std::uint64_t end) noexcept {
    if (begin >= end) return;
    // Swallows all that it touches.
    std::size_t first = 0;
    while (first < count_ && items_[first].end < begin) ++first;
    std::size_t last = first;
    while (last < count_ && items_[last].begin <= end) {
      begin = std::min(begin, items_[last].begin);
      end = std::max(end, items_[last].end);
      ++last;
    }
    if (first == last && count_ == kCapacity) return;
    replace(first, last, Interval{begin, end});
  }

  void remove(std::uint64_t begin, std::uint64_t end) noexcept {
    if (begin >= end) return;
    for (std::size_t i = 0; i < count_;) {
      const Interval old = items_[i];
      if (old.end <= begin || old.begin >= end) {
        ++i;
        continue;
      }
      erase(i);
      if (old.begin < begin) insert(i++, Interval{old.begin, begin});
      if (old.end > end && count_ < kCapacity) insert(i++, Interval{end, old.end});
    }
  }

  // Calls f(begin, end) for what the set has of the interval, in order. `f` must not change the set.
  template <typename F>
  void for_each_in(std::uint64_t begin, std::uint64_t end, F&& f) const {
    for (std::size_t i = 0; i < count_; ++i) {
      const std::uint64_t from = std::max(begin, items_[i].begin);
      const std::uint64_t to = std::min(end, items_[i].end);
      if (from < to) f(from, to);
    }
  }
  // The first of what the set has of the interval; empty if nothing.
  [[nodiscard]] Interval first_in(std::uint64_t begin, std::uint64_t end) const noexcept {
    for (std::size_t i = 0; i < count_; ++i) {
      const Interval both{std::max(begin, items_[i].begin), std::min(end, items_[i].end)};
      if (both.begin < both.end) return both;
    }
    return {};
  }
  // Whether it has some of the interval, or something that begins or ends where that ends or begins.
  [[nodiscard]] bool touches(std::uint64_t begin, std::uint64_t end) const noexcept {
    return std::any_of(items_.begin(), items_.begin() + static_cast<std::ptrdiff_t>(count_),
                       [&](const Interval& item) { return item.begin <= end && begin <= item.end; });
  }
  [[nodiscard]] bool holds(std::uint64_t begin, std::uint64_t end) const noexcept {
    const Interval found = first_in(begin, end);
    return begin < end && found.begin == begin && found.end == end;
  }
  [[nodiscard]] std::size_t size() const noexcept { return count_; }

 private:
  static constexpr std::size_t kCapacity = 8192;

  void erase(std::size_t at) noexcept {
    std::copy(items_.begin() + static_cast<std::ptrdiff_t>(at) + 1,
              items_.begin() + static_cast<std::ptrdiff_t>(count_), items_.begin() + static_cast<std::ptrdiff_t>(at));
    --count_;
  }
  void insert(std::size_t at, Interval item) noexcept {
    std::copy_backward(items_.begin() + static_cast<std::ptrdiff_t>(at),
                       items_.begin() + static_cast<std::ptrdiff_t>(count_),
                       items_.begin() + static_cast<std::ptrdiff_t>(count_) + 1);
    items_[at] = item;
    ++count_;
  }
  void replace(std::size_t first, std::size_t last, Interval item) noexcept {
    while (last > first) erase(--last);
    insert(first, item);
  }

  std::array<Interval, kCapacity> items_{};
  std::size_t count_ = 0;
};

}  // namespace comex::runtime
