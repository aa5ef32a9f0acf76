// Reading and writing memory that the program named, which may be away, guarded, or no memory at all: as the kernel
// does it for a call, never with a fault of our own that nobody could answer.
//
// Thread safety: any thread that the runtime knows. Fault path: yes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace comex::runtime {

// False where the kernel would say EFAULT.
bool copy_in(std::uint64_t address, void* to, std::size_t bytes) noexcept;
bool copy_out(std::uint64_t address, const void* from, std::size_t bytes) noexcept;

}  // namespace comex::runtime
