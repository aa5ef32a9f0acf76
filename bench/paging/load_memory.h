// The memory of the loads: plain, private and anonymous, as malloc gets it for large pieces.
// Thread safety: as of an array.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>

namespace comex::bench {

// `count` elements, all zeros. Without any if they cannot be had; then errno says why.
template <typename Element>
class LoadMemory {
 public:
  explicit LoadMemory(std::uint64_t count) : bytes_(count * sizeof(Element)) {
    void* const at = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) return;
    // Every system moves the same pages then. A kernel that knows no huge pages refuses, and is right.
    ::madvise(at, bytes_, MADV_NOHUGEPAGE);
    elements_ = static_cast<Element*>(at);
  }
  ~LoadMemory() {
    if (elements_ != nullptr) ::munmap(elements_, bytes_);
  }
  LoadMemory(const LoadMemory&) = delete;
  LoadMemory& operator=(const LoadMemory&) = delete;

  [[nodiscard]] explicit operator bool() const { return elements_ != nullptr; }
  [[nodiscard]] Element* data() const { return elements_; }
  [[nodiscard]] Element& operator[](std::uint64_t index) const { return elements_[index]; }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

 private:
  Element* elements_ = nullptr;
  std::uint64_t bytes_;
};

}  // namespace comex::bench
