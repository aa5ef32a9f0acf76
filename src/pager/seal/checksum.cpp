#include "pager/seal/checksum.h"

#include <cstring>

#include "base/units.h"

// All of it in this file, so that there is nothing to link: what is used of it allocates nothing.
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace comex {
namespace {

Checksum::Sum sum_of(const std::byte* page) {
  return static_cast<Checksum::Sum>(XXH3_64bits(page, kPageSize));
}

}  // namespace

void Checksum::seal(std::byte* page, std::byte* seal) const noexcept {
  const Sum sum = sum_of(page);
  std::memcpy(seal, &sum, sizeof sum);
}

bool Checksum::open(std::byte* page, const std::byte* seal) const noexcept {
  const Sum sum = sum_of(page);
  return std::memcmp(seal, &sum, sizeof sum) == 0;
}

}  // namespace comex
