#include "pool/erasure.h"

#include <bit>
#include <utility>

#include "base/units.h"

namespace comex {
namespace {

// x^8 = x^4 + x^3 + x^2 + 1, as for RAID 6 and in ISA-L.
constexpr std::uint8_t kPolynomial = 0x1d;

// 16 bytes, which every processor of this kind has a register for; and a few of them, for one turn of a loop.
using Bytes [[gnu::vector_size(16), gnu::may_alias]] = std::int8_t;
constexpr std::size_t kAtOnce = 4;
constexpr std::size_t kStep = kAtOnce * sizeof(Bytes);

constexpr std::uint8_t twice(std::uint8_t x) {
  return static_cast<std::uint8_t>(x << 1 ^ ((x & 0x80) != 0 ? kPolynomial : 0));
}

constexpr std::uint8_t product(std::uint8_t a, std::uint8_t b) {
  std::uint8_t sum = 0;
  for (; b != 0; b >>= 1, a = twice(a)) {
    if ((b & 1) != 0) sum ^= a;
  }
  return sum;
}

// a^254.
constexpr std::uint8_t inverse(std::uint8_t a) {
  std::uint8_t result = 1;
  for (int i = 0; i < 254; ++i) result = product(result, a);
  return result;
}
static_assert(product(inverse(0x53), 0x53) == 1);

}  // namespace

Factors Erasure::row(std::uint32_t position) const noexcept {
  Factors row{};
  if (position < code_.data) {
    row[position] = 1;
    return row;
  }
  const std::uint32_t which = position - code_.data;
  std::uint8_t factor = 1;
  for (std::uint32_t i = 0; i < code_.data; ++i) {
    row[i] = factor;
    if (which == 1) factor = twice(factor);
  }
  return row;
}

// The others' rows are a matrix that takes the data to them; its inverse takes them to the data (Gauss and Jordan).
Factors Erasure::solve(std::uint32_t wanted, std::span<const std::uint32_t> others) const noexcept {
  const std::uint32_t n = code_.data;
  std::array<Factors, Code::kMostData> matrix{};
  std::array<Factors, Code::kMostData> inverted{};
  for (std::uint32_t i = 0; i < n; ++i) {
    matrix[i] = row(others[i]);
    inverted[i][i] = 1;
  }
  const auto add = [n](Factors& to, const Factors& from, std::uint8_t factor) {
    for (std::uint32_t i = 0; i < n; ++i) to[i] ^= product(from[i], factor);
  };
  for (std::uint32_t at = 0; at < n; ++at) {
    std::uint32_t pivot = at;
    while (pivot + 1 < n && matrix[pivot][at] == 0) ++pivot;
    std::swap(matrix[at], matrix[pivot]);
    std::swap(inverted[at], inverted[pivot]);
    const std::uint8_t scale = inverse(matrix[at][at]);
    for (std::uint32_t i = 0; i < n; ++i) {
      matrix[at][i] = product(matrix[at][i], scale);
      inverted[at][i] = product(inverted[at][i], scale);
    }
    for (std::uint32_t other = 0; other < n; ++other) {
      if (other == at) continue;
      const std::uint8_t factor = matrix[other][at];
      add(matrix[other], matrix[at], factor);
      add(inverted[other], inverted[at], factor);
    }
  }
  Factors sum{};
  const Factors wants = row(wanted);
  for (std::uint32_t i = 0; i < n; ++i) add(sum, inverted[i], wants[i]);
  return sum;
}

// By Horner's rule, over the bits of the factors: the sum is doubled once for each bit, not each page. It needs no
// table and no special instruction.
void Erasure::combine(const Factors& factors, const Pages& pages, std::byte* into) const noexcept {
  std::uint8_t all = 0;
  for (std::uint32_t i = 0; i < code_.data; ++i) all |= factors[i];
  const int top = std::bit_width(all) - 1;
  for (std::size_t at = 0; at < kPageSize; at += kStep) {
    Bytes sum[kAtOnce]{};
    for (int bit = top; bit >= 0; --bit) {
      if (bit < top) {
        for (Bytes& part : sum) part = (part + part) ^ ((part < 0) & static_cast<std::int8_t>(kPolynomial));
      }
      for (std::uint32_t i = 0; i < code_.data; ++i) {
        if ((factors[i] >> bit & 1) == 0) continue;
        const auto* const from = reinterpret_cast<const Bytes*>(pages[i] + at);
        for (std::size_t part = 0; part < kAtOnce; ++part) sum[part] ^= from[part];
      }
    }
    auto* const to = reinterpret_cast<Bytes*>(into + at);
    for (std::size_t part = 0; part < kAtOnce; ++part) to[part] = sum[part];
  }
}

}  // namespace comex
