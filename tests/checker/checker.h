// What the parts of the checker share: random numbers, what a word should be, how a run ends that found something
// wrong.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace checker {

constexpr std::size_t kPageSize = 4096;
constexpr std::size_t kWords = kPageSize / sizeof(std::uint64_t);

inline std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

// A sequence of its own for each thread and each child, made from the seed alone.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(mix(seed + 1)) {}
  std::uint64_t next() { return mix(state_ += 0x9e3779b97f4a7c15U); }
  std::size_t below(std::size_t limit) { return static_cast<std::size_t>(next() % limit); }
  bool one_in(std::size_t n) { return below(n) == 0; }

 private:
  std::uint64_t state_;
};

// What word `index` of a page is that was written with `stamp`; nothing else is remembered of it. Stamp 0 is memory
// that nobody wrote: zeros. Stamps are random numbers, so parent and child never write the same.
inline std::uint64_t word(std::uint64_t stamp, std::size_t index) {
  return stamp == 0 ? 0 : mix(stamp) + index * 0x9e3779b97f4a7c15U;
}

struct Settings {
  std::uint64_t seed = 1;
  std::size_t threads = 1;
  std::size_t pages = 16384;  // of all threads together
  unsigned seconds = 5;
  std::string_view without;  // what is not to be done, to find what makes a difference: names with commas between

  [[nodiscard]] bool does(std::string_view name) const {
    for (std::size_t at = 0; at < without.size();) {
      const std::size_t end = std::min(without.find(',', at), without.size());
      if (without.substr(at, end - at) == name) return false;
      at = end + 1;
    }
    return true;
  }
};

// Prints what is wrong with the seed that shows it, and ends the process. Takes no lock and allocates nothing.
[[noreturn]] void wrong(const Settings& settings, const char* format, ...) __attribute__((format(printf, 2, 3)));

}  // namespace checker
