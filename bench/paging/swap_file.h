// A file to swap to, on a disk. Not thread-safe.
#pragma once

#include <memory>
#include <string>

#include "bench/paging/swap_area.h"

namespace comex::bench {

class SwapFile : public SwapArea {
 public:
  // In `folder`, under a name that tells a later run whose it was. Takes the space on the disk at once.
  static Expected<std::unique_ptr<SwapArea>> create(const std::string& folder, std::uint64_t bytes);
  // Those of a run that was killed: in `folder`, and among `swaps`, the paths that the kernel swaps to. A file of that
  // name that holds anything else is left alone. REQUIRES: no other run is under way.
  static Expected<void> remove_leftovers(const std::string& folder, const std::vector<std::string>& swaps);

  ~SwapFile() override;
  SwapFile(const SwapFile&) = delete;
  SwapFile& operator=(const SwapFile&) = delete;
  [[nodiscard]] const std::string& path() const override { return path_; }

 private:
  explicit SwapFile(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

}  // namespace comex::bench
