// What the best possible eviction would miss: that which takes what will be used again last (Belady, 1966). It knows
// the future, so nobody can do as well; it shows how much there is to be gained.
//
// Thread-safe: functions without state.
#pragma once

#include <cstdint>
#include <vector>

namespace comex::bench {

// Pages in the order in which they are used.
using PageString = std::vector<std::uint32_t>;

// How many uses of a page from `from` on find it away, if up to `local` pages are here at a time. First uses do not
// count: nobody has such a page yet. Pages leave one at a time, though policies take them by blocks: to know the future
// does not tell which of several blocks should go, and who takes the one whose first page is used last misses more in
// random use than who takes any.
std::uint64_t best_possible(const PageString& uses, std::uint64_t local, std::size_t from);

}  // namespace comex::bench
