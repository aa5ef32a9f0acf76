// Memory for pages on their way: of the frames, which may have some that it takes a copy less from, or of the pager's
// own.
#pragma once

#include <cstddef>

#include "pager/memory.h"
#include "pool/frames.h"

namespace comex {

// Zeros, whole pages; nullptr: there is no memory.
inline std::byte* transfer_memory(Memory& memory, Frames& frames, std::size_t bytes) noexcept {
  std::byte* const theirs = frames.transfer_memory(bytes);
  return theirs != nullptr ? theirs : memory.own(bytes);
}

}  // namespace comex
