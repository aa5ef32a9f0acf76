#include "bench/evict/belady.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

namespace comex::bench {
namespace {

constexpr std::uint32_t kNever = std::numeric_limits<std::uint32_t>::max();

// For each use, when the same page is used again.
std::vector<std::uint32_t> next_uses(const PageString& uses, std::size_t pages) {
  std::vector<std::uint32_t> next(uses.size(), kNever);
  std::vector<std::uint32_t> last(pages, kNever);
  for (std::size_t i = uses.size(); i-- > 0;) {
    next[i] = last[uses[i]];
    last[uses[i]] = static_cast<std::uint32_t>(i);
  }
  return next;
}

}  // namespace

std::uint64_t best_possible(const PageString& uses, std::uint64_t local, std::size_t from) {
  const std::size_t pages = uses.empty() ? 0 : std::size_t{*std::max_element(uses.begin(), uses.end())} + 1;
  const auto next = next_uses(uses, pages);
  std::vector<bool> known(pages, false);
  std::vector<std::uint32_t> used_again(pages, kNever);    // of those that are here
  std::set<std::pair<std::uint32_t, std::uint32_t>> here;  // by when it is used again
  std::uint64_t missed = 0;
  for (std::size_t i = 0; i < uses.size(); ++i) {
    const std::uint32_t page = uses[i];
    if (here.erase({used_again[page], page}) == 0) {
      missed += known[page] && i >= from ? 1 : 0;
      if (here.size() >= local) here.erase(std::prev(here.end()));
    }
    known[page] = true;
    used_again[page] = next[i];
    here.insert({next[i], page});
  }
  return missed;
}

}  // namespace comex::bench
