// Where the kernel can swap to: a file or a device with a swap header of ours. Each kind is a small class that makes
// one, and removes it when it goes. Not thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/expected.h"

namespace comex::bench {

class SwapArea {
 public:
  virtual ~SwapArea() = default;
  [[nodiscard]] virtual const std::string& path() const = 0;
};

// While one lives the kernel swaps to `path`.
class SwapOn {
 public:
  static Expected<SwapOn> start(const std::string& path);
  SwapOn(SwapOn&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  SwapOn& operator=(SwapOn&&) = delete;
  ~SwapOn();

 private:
  explicit SwapOn(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

// What mkswap does, with a label that tells a later run whose it was.
Expected<void> write_swap_header(const std::string& path, std::uint64_t bytes);
bool has_our_swap_header(const std::string& path);

// The paths in /proc/swaps, of which `text` is the contents: its escapes (\040) are undone.
std::vector<std::string> parse_swaps(std::string_view text);
Expected<std::vector<std::string>> active_swaps();

Expected<void> stop_swapping(const std::string& path);

}  // namespace comex::bench
