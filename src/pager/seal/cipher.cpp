#include "pager/seal/cipher.h"

#include <cstring>

#include <intel-ipsec-mb.h>

#include "base/units.h"

namespace comex {
namespace {

static_assert(sizeof(gcm_key_data) <= 1024 && alignof(gcm_key_data) <= 64);

// GCM's nonce is longer than ours; the rest of it is zero.
struct Nonce {
  explicit Nonce(const std::byte* from) { std::memcpy(bytes.data(), from, sizeof(std::uint64_t)); }
  std::array<std::uint8_t, 12> bytes{};
};

std::uint8_t* octets(std::byte* bytes) {
  return reinterpret_cast<std::uint8_t*>(bytes);
}

const gcm_key_data* schedule_in(const std::array<std::byte, 1024>& bytes) {
  return reinterpret_cast<const gcm_key_data*>(bytes.data());
}

// Takes as long wherever they differ: a node must not learn how near it came.
bool same(const std::byte* one, const std::byte* other, std::size_t count) {
  std::byte difference{};
  for (std::size_t i = 0; i < count; ++i) difference |= one[i] ^ other[i];
  return difference == std::byte{};
}

}  // namespace

// Of the library, the functions that write to our memory alone; the variants that need no more than what every x86-64
// processor of the last ten years has.
Cipher::Cipher(CipherKey& key) noexcept : key_(key), schedule_{} {
  auto* const schedule = reinterpret_cast<gcm_key_data*>(schedule_.data());
  aes_keyexp_256_enc_sse(key.bytes.data(), schedule->expanded_keys);
  aes_gcm_precomp_256_sse(schedule);
}

void Cipher::seal(std::byte* page, std::byte* seal) const noexcept {
  const std::uint64_t number = key_.pages.fetch_add(1, std::memory_order_relaxed) + 1;
  std::memcpy(seal, &number, sizeof number);
  const Nonce nonce(seal);
  gcm_context_data context;
  aes_gcm_enc_256_sse(schedule_in(schedule_), &context, octets(page), octets(page), kPageSize, nonce.bytes.data(),
                      nullptr, 0, octets(seal + kNonceBytes), kTagBytes);
}

bool Cipher::open(std::byte* page, const std::byte* seal) const noexcept {
  const Nonce nonce(seal);
  gcm_context_data context;
  std::array<std::byte, kTagBytes> tag;
  aes_gcm_dec_256_sse(schedule_in(schedule_), &context, octets(page), octets(page), kPageSize, nonce.bytes.data(),
                      nullptr, 0, octets(tag.data()), kTagBytes);
  return same(tag.data(), seal + kNonceBytes, kTagBytes);
}

}  // namespace comex
