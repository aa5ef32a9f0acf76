// Memory that begins at a page.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>

#include "base/units.h"

namespace comex {

class AlignedBytes {
 public:
  // REQUIRES: whole pages.
  explicit AlignedBytes(std::size_t bytes) : bytes_(static_cast<std::byte*>(std::aligned_alloc(kPageSize, bytes))) {
    if (!bytes_) throw std::bad_alloc();
  }
  [[nodiscard]] std::byte* data() const { return bytes_.get(); }

 private:
  struct Free {
    void operator()(std::byte* bytes) const { std::free(bytes); }
  };
  std::unique_ptr<std::byte, Free> bytes_;
};

}  // namespace comex
