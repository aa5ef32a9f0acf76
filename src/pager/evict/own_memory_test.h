// Memory that has nothing but what the pager asks for itself, and can be looked at.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "pager/memory.h"

namespace comex::testing_support {

class OnlyOwn final : public Memory {
 public:
  Errc place(PageRun, const std::byte*, bool) noexcept override { return Errc::unsupported; }
  Errc place_zeros(PageRun) noexcept override { return Errc::unsupported; }
  Errc guard(PageRun) noexcept override { return Errc::unsupported; }
  Errc unguard(PageRun) noexcept override { return Errc::unsupported; }
  Errc discard(std::span<const PageRun>) noexcept override { return Errc::unsupported; }
  [[nodiscard]] const std::byte* bytes(PageNo) const noexcept override { return nullptr; }
  std::byte* own(std::size_t bytes) noexcept override {
    return reinterpret_cast<std::byte*>(pieces_.emplace_back(bytes / sizeof(std::uint32_t)).data());
  }
  // How much of the last piece was written to.
  [[nodiscard]] std::size_t touched() const {
    const auto& words = pieces_.back();
    const auto last = std::find_if(words.rbegin(), words.rend(), [](std::uint32_t word) { return word != 0; });
    return static_cast<std::size_t>(words.rend() - last) * sizeof words[0];
  }

 private:
  std::deque<std::vector<std::uint32_t>> pieces_;
};

}  // namespace comex::testing_support
