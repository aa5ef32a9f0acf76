#include "pager/read_buffer.h"

#include <cstring>
#include <mutex>

namespace comex {

ReadBuffer::ReadBuffer(Memory& memory, std::uint32_t pages) noexcept {
  const std::uint32_t sets = pages / kWays;
  if (sets == 0) return;
  sets_ = reinterpret_cast<Set*>(memory.own(sets * sizeof(Set)));
  memory_ = memory.own(std::size_t{sets} * kWays * kPageSize);
  if (sets_ != nullptr && memory_ != nullptr) count_ = sets;
}

std::size_t ReadBuffer::way_of(const Set& set, PageNo page) noexcept {
  std::size_t way = 0;
  while (way < kWays && set.pages[way] != page.value) ++way;
  return way;
}

void ReadBuffer::put(PageNo page, const std::byte* bytes) noexcept {
  if (count_ == 0) return;
  Set& set = set_of(page);
  const std::lock_guard lock(set.mutex);
  std::size_t way = way_of(set, page);
  if (way == kWays) way = set.next++ % kWays;
  set.pages[way] = page.value;
  std::memcpy(bytes_of(set, way), bytes, kPageSize);
}

bool ReadBuffer::take(PageNo page, std::byte* to) noexcept {
  if (count_ == 0) return false;
  Set& set = set_of(page);
  const std::lock_guard lock(set.mutex);
  const std::size_t way = way_of(set, page);
  if (way == kWays) return false;
  if (to != nullptr) std::memcpy(to, bytes_of(set, way), kPageSize);
  set.pages[way] = kNobody;
  return true;
}

bool ReadBuffer::has(PageNo page) noexcept {
  if (count_ == 0) return false;
  Set& set = set_of(page);
  const std::lock_guard lock(set.mutex);
  return way_of(set, page) != kWays;
}

}  // namespace comex
