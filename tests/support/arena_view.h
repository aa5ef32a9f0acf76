// The memory that nodes of this process lend, for a test to look into and to change behind everybody's back.
// REQUIRES: no node begins or ends while one of these is used.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

namespace comex::test {

class ArenaView {
 public:
  ArenaView();

  // Calls f(std::span<std::byte>) for each frame.
  template <typename F>
  void for_each_frame(F&& f) const {
    constexpr std::size_t kFrame = 4096;
    for (const auto slab : slabs_) {
      for (std::size_t at = 0; at < slab.size(); at += kFrame) f(slab.subspan(at, kFrame));
    }
  }
  // How many have these bytes in them.
  [[nodiscard]] std::size_t count_with(std::string_view bytes) const;
  [[nodiscard]] std::vector<std::byte> copy() const;
  // As it was then.
  void restore(const std::vector<std::byte>& copy) const;

 private:
  std::vector<std::span<std::byte>> slabs_;
};

}  // namespace comex::test
