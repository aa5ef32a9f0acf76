#include "pool/placement.h"

#include <algorithm>

namespace comex {
namespace {

// The finalizer of SplitMix64: every bit of the input reaches every bit of the output.
std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

std::uint64_t hash(std::uint64_t nid, std::uint32_t pid) {
  return mix(nid << 32 | pid);
}

}  // namespace

Placement::Placement(NodeId host, std::uint32_t pid, std::size_t nodes, std::uint64_t seed)
    : preferred_(hash(host.value, pid) % nodes), alternative_(preferred_), random_(seed) {
  if (nodes == 1) return;
  // The preferred node itself is left out of the range, so that the rehash needs no retry.
  alternative_ = hash(preferred_, pid) % (nodes - 1);
  if (alternative_ >= preferred_) ++alternative_;
}

std::optional<std::size_t> Placement::choose(std::span<const Candidate> candidates) {
  if (candidates[preferred_].usable) return preferred_;
  if (candidates[alternative_].usable) return alternative_;
  return two_choices(candidates);
}

std::optional<std::size_t> Placement::two_choices(std::span<const Candidate> candidates) {
  const auto usable = static_cast<std::size_t>(
      std::count_if(candidates.begin(), candidates.end(), [](const Candidate& c) { return c.usable; }));
  if (usable == 0) return std::nullopt;
  const auto nth_usable = [&](std::size_t n) {
    std::size_t i = 0;
    while (!candidates[i].usable || n-- > 0) ++i;
    return i;
  };
  const std::size_t first = draw(usable);
  if (usable == 1) return nth_usable(first);
  std::size_t second = draw(usable - 1);
  if (second >= first) ++second;
  const std::size_t a = nth_usable(first);
  const std::size_t b = nth_usable(second);
  return candidates[b].free_frames > candidates[a].free_frames ? b : a;
}

std::size_t Placement::draw(std::size_t below) {
  random_ += 0x9e3779b97f4a7c15;
  return mix(random_) % below;
}

}  // namespace comex
