// A set of addresses, as sorted intervals that neither overlap nor touch. Of fixed capacity: what does not fit is left
// out, and callers are told.
//
// Thread safety: none. Fault path: yes.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace comex::runtime {

struct Interval {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

template <std::size_t kMost>
class IntervalSet {
 public:
  static constexpr std::size_t kCapacity = kMost;

  // False if there is no room for it.
  bool add(std::uint64_t begin, std::uint64_t end) noexcept {
    if (begin >= end) return true;
    // Swallows all that it touches.
    const std::size_t first = after(begin, true);
    std::size_t last = first;
    while (last < count_ && items_[last].begin <= end) {
      begin = std::min(begin, items_[last].begin);
      end = std::max(end, items_[last].end);
      ++last;
    }
    if (first == last && count_ == kCapacity) return false;
    replace(first, last, Interval{begin, end});
    return true;
  }

  // False if there was no room for a part that was to stay: then that is not in the set any more, either.
  bool remove(std::uint64_t begin, std::uint64_t end) noexcept {
    if (begin >= end) return true;
    bool room = true;
    for (std::size_t i = after(begin, false); i < count_ && items_[i].begin < end;) {
      const Interval old = items_[i];
      erase(i);
      if (old.begin < begin) insert(i++, Interval{old.begin, begin});
      if (old.end <= end) continue;
      room = count_ < kCapacity;
      if (room) insert(i++, Interval{end, old.end});
    }
    return room;
  }

  // Calls f(begin, end) for what the set has of the interval, in order. `f` must not change the set.
  template <typename F>
  void for_each_in(std::uint64_t begin, std::uint64_t end, F&& f) const {
    for (std::size_t i = after(begin, false); i < count_ && items_[i].begin < end; ++i) {
      f(std::max(begin, items_[i].begin), std::min(end, items_[i].end));
    }
  }
  // The first of what the set has of the interval; empty if nothing.
  [[nodiscard]] Interval first_in(std::uint64_t begin, std::uint64_t end) const noexcept {
    const std::size_t i = after(begin, false);
    if (begin >= end || i == count_ || items_[i].begin >= end) return {};
    return {std::max(begin, items_[i].begin), std::min(end, items_[i].end)};
  }
  // Whether it has some of the interval, or something that begins or ends where that ends or begins.
  [[nodiscard]] bool touches(std::uint64_t begin, std::uint64_t end) const noexcept {
    const std::size_t i = after(begin, true);
    return i < count_ && items_[i].begin <= end;
  }
  [[nodiscard]] bool holds(std::uint64_t begin, std::uint64_t end) const noexcept {
    const Interval found = first_in(begin, end);
    return begin < end && found.begin == begin && found.end == end;
  }
  [[nodiscard]] std::size_t size() const noexcept { return count_; }

 private:
  using Place = std::ptrdiff_t;

  // The first that ends behind the address, or `at` it.
  [[nodiscard]] std::size_t after(std::uint64_t address, bool at) const noexcept {
    const auto found =
        std::partition_point(items_.begin(), items_.begin() + static_cast<Place>(count_),
                             [&](const Interval& item) { return at ? item.end < address : item.end <= address; });
    return static_cast<std::size_t>(found - items_.begin());
  }
  void erase(std::size_t at) noexcept {
    std::copy(items_.begin() + static_cast<Place>(at) + 1, items_.begin() + static_cast<Place>(count_),
              items_.begin() + static_cast<Place>(at));
    --count_;
  }
  void insert(std::size_t at, Interval item) noexcept {
    std::copy_backward(items_.begin() + static_cast<Place>(at), items_.begin() + static_cast<Place>(count_),
                       items_.begin() + static_cast<Place>(count_) + 1);
    items_[at] = item;
    ++count_;
  }
  void replace(std::size_t first, std::size_t last, Interval item) noexcept {
    while (last > first + 1) erase(--last);
    if (last == first) return insert(first, item);
    items_[first] = item;
  }

  std::array<Interval, kCapacity> items_{};
  std::size_t count_ = 0;
};

// For what may be left out.
using Intervals = IntervalSet<8192>;

}  // namespace comex::runtime
