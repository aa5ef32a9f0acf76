// A zram device: memory that holds pages compressed, for the kernel to swap to. Not thread-safe.
#pragma once

#include <memory>
#include <string>

#include "bench/paging/swap_area.h"

namespace comex::bench {

class Zram : public SwapArea {
 public:
  // A device of our own beside those that are there, with the kernel's usual compression. Loads the module where it is
  // one. Errc::unsupported, with a word, where the kernel has no zram.
  static Expected<std::unique_ptr<SwapArea>> create(std::uint64_t bytes);
  // Those of a run that was killed; other devices are left alone. `swaps` are the paths that the kernel swaps to.
  // REQUIRES: no other run is under way.
  static Expected<void> remove_leftovers(const std::vector<std::string>& swaps);

  ~Zram() override;
  Zram(const Zram&) = delete;
  Zram& operator=(const Zram&) = delete;
  [[nodiscard]] const std::string& path() const override { return path_; }

 private:
  explicit Zram(std::string number) : number_(std::move(number)), path_("/dev/zram" + number_) {}
  std::string number_;
  std::string path_;
};

}  // namespace comex::bench
