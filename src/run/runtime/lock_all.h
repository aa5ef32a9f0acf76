// mlockall() without the runtime's memory, most of which is addresses only: 16 GiB that the kernel would fill. And what
// is locked the kernel neither discards nor moves to what is not.
//
// First everything is locked as it is touched, which takes no memory yet; then what is the program's as it asked for.
// Thread safety: any thread. Fault path: yes; bare system calls.
#pragma once

#include <cstdint>

namespace comex::runtime {

// The first part: -errno, as of the kernel, and then nothing has changed. What is ours is not locked when this returns.
std::int64_t lock_as_touched(std::uint64_t flags) noexcept;
// The second, if the first was granted: all that is mapped now and not ours, if it was asked for.
void lock_present(std::uint64_t flags) noexcept;

}  // namespace comex::runtime
