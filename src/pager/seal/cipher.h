// Pages leave encrypted (AES-256-GCM), and the seal is the nonce and the tag: a node sees nothing, can forge nothing,
// and cannot bring back an older page, for its tag is another. What it does see is which frames are used, and when.
//
// All processes of a program use one key, as they fetch each other's pages after a fork, and no nonce twice: nonces are
// numbers of one counter, which they share. See "No nonce twice" in docs/design-notes.md.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "pager/seal/sealer.h"

namespace comex {

// Shared by all who have the key.
struct CipherKey {
  static constexpr std::size_t kBytes = 32;

  std::array<std::byte, kBytes> bytes{};
  std::atomic<std::uint64_t> pages{0};  // that were ever encrypted with it: the last nonce
};

class Cipher final : public Sealer {
 public:
  // REQUIRES: available(); the key outlives this.
  explicit Cipher(CipherKey& key) noexcept;
  // Whether this processor has what it takes.
  static bool available() noexcept {
    return __builtin_cpu_supports("aes") && __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.2");
  }

  [[nodiscard]] std::size_t size() const noexcept override { return kSealBytes; }
  [[nodiscard]] bool veils() const noexcept override { return true; }
  void seal(std::byte* page, std::byte* seal) const noexcept override;
  [[nodiscard]] bool open(std::byte* page, const std::byte* seal) const noexcept override;

 private:
  static constexpr std::size_t kNonceBytes = 8;
  static constexpr std::size_t kTagBytes = 16;
  static constexpr std::size_t kSealBytes = kNonceBytes + kTagBytes;

  CipherKey& key_;
  alignas(64) std::array<std::byte, 1024> schedule_;  // of the key: a gcm_key_data
};

}  // namespace comex
