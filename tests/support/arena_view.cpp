#include "support/arena_view.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>

namespace comex::test {

ArenaView::ArenaView() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("memfd:comex-slab") == std::string::npos || line.find(" rw-s ") == std::string::npos) continue;
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR, &begin, &end) != 2) continue;
    slabs_.emplace_back(reinterpret_cast<std::byte*>(begin), end - begin);
  }
}

std::size_t ArenaView::count_with(std::string_view bytes) const {
  std::size_t count = 0;
  for_each_frame([&](std::span<std::byte> frame) {
    const std::string_view text(reinterpret_cast<const char*>(frame.data()), frame.size());
    count += text.find(bytes) != std::string_view::npos;
  });
  return count;
}

std::vector<std::byte> ArenaView::copy() const {
  std::vector<std::byte> all;
  for (const auto slab : slabs_) all.insert(all.end(), slab.begin(), slab.end());
  return all;
}

void ArenaView::restore(const std::vector<std::byte>& copy) const {
  auto from = copy.begin();
  for (const auto slab : slabs_) {
    std::copy_n(from, slab.size(), slab.begin());
    from += static_cast<std::ptrdiff_t>(slab.size());
  }
}

}  // namespace comex::test
