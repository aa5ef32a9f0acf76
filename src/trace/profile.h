// The file of `comex run --profile`: the pages that each process of a program had to wait for, in the order in which it
// wanted them, thread by thread.
//
//   file      "comexprf", version u16, page size u32, processes u32, so many of them, checksum u64 of all before
//   process   executable u64, arguments u64, name, threads u32, so many of them
//   thread    faults u32, so many differences: varints, zigzag, from the page before, or from 0
//
// Integers are little-endian, text is a u16 and so many bytes. A page is named as pager/prefetch/anchors.h does it. The
// checksum is FNV-1a of 64 bits: against damage, not against malice, which gains nothing: whatever a profile says, it
// only says what to read ahead. A file that is not whole is none.
//
// Thread safety: functions without state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/expected.h"

namespace comex {

struct ProfiledProcess {
  std::string name;
  std::uint64_t executable = 0;  // numbers that others hardly have: of its size and time of change,
  std::uint64_t arguments = 0;   // ... and of what it was run with
  std::vector<std::vector<std::uint64_t>> threads;

  [[nodiscard]] std::uint64_t faults() const;
  friend bool operator==(const ProfiledProcess&, const ProfiledProcess&) = default;
};

struct Profile {
  static constexpr std::string_view kMagic = "comexprf";
  static constexpr std::uint16_t kVersion = 1;
  static constexpr std::size_t kMostProcesses = 64;
  static constexpr std::uint64_t kMostFaults = 4 << 20;  // of all processes: some bytes each, here and in the file

  std::vector<ProfiledProcess> processes;  // in the order in which they began

  [[nodiscard]] std::uint64_t faults() const;
  friend bool operator==(const Profile&, const Profile&) = default;
};

std::vector<std::byte> encode_profile(const Profile& profile);
// Errc::invalid, and why, of what is no profile, or not of this version. Nothing is trusted.
Expected<Profile> decode_profile(std::span<const std::byte> bytes);

// A number that follows from bytes; goes on from `before`.
inline constexpr std::uint64_t kNoBytes = 0xcbf29ce484222325;
constexpr std::uint64_t fingerprint(std::span<const std::byte> bytes, std::uint64_t before = kNoBytes) noexcept {
  constexpr std::uint64_t kPrime = 0x100000001b3;
  for (const std::byte byte : bytes) before = (before ^ static_cast<std::uint64_t>(byte)) * kPrime;
  return before;
}

}  // namespace comex
