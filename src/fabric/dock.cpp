#include "fabric/dock.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstring>

#include "base/own_place.h"

namespace comex {

Dock::~Dock() {
  if (base_ != nullptr) ::munmap(base_, bytes_);
}

Fd Dock::make_file(std::size_t bytes) noexcept {
  // Beyond that a file brings a signal, which would end the program.
  rlimit most{};
  if (::getrlimit(RLIMIT_FSIZE, &most) != 0 || most.rlim_cur < bytes) return {};
  Fd file(::memfd_create("comex-dock", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const bool made = file && ::ftruncate(file.get(), static_cast<off_t>(bytes)) == 0 &&
                    ::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0;
  return made ? std::move(file) : Fd();
}

bool Dock::map(int file, void* at, int how) noexcept {
  void* const got = ::mmap(at, bytes_, PROT_READ | PROT_WRITE, how, file, 0);
  if (got == MAP_FAILED) return false;
  base_ = static_cast<std::byte*>(got);
  if (file >= 0) ::madvise(base_, bytes_, MADV_DONTFORK);
  return true;
}

Errc Dock::open(Fd file, std::size_t bytes) noexcept {
  bytes_ = bytes;
  if (file && map(file.get(), OwnPlace::take(bytes), MAP_SHARED)) {
    file_ = std::move(file);
    return Errc::ok;
  }
  bytes_ = 0;
  return Errc::io;
}

Errc Dock::renew(Fd file) noexcept {
  for (Word& word : parts_) word.store(0, std::memory_order_relaxed);
  parted_.store(false, std::memory_order_relaxed);
  const bool shared = file && map(file.get(), base_, MAP_SHARED | MAP_FIXED);
  if (!shared && !map(-1, base_, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED)) return Errc::io;
  file_ = shared ? std::move(file) : Fd();
  return Errc::ok;
}

std::byte* Dock::take(std::size_t bytes) noexcept {
  bytes = (bytes + kPageSize - 1) / kPageSize * kPageSize;
  std::size_t at = used_.load(std::memory_order_relaxed);
  do {
    if (bytes > bytes_ - at) return nullptr;
  } while (!used_.compare_exchange_weak(at, at + bytes, std::memory_order_relaxed));
  return base_ + at;
}

std::optional<std::uint32_t> Dock::number_of(const std::byte* memory, std::uint32_t pages) const noexcept {
  const auto offset = reinterpret_cast<std::uintptr_t>(memory) - reinterpret_cast<std::uintptr_t>(base_);
  const std::size_t bytes = std::size_t{pages} << kPageShift;
  if (!file_ || offset >= bytes_ || bytes > bytes_ - offset || offset % kPageSize != 0) return std::nullopt;
  return static_cast<std::uint32_t>(offset >> kPageShift);
}

std::optional<std::uint32_t> Dock::find(const std::byte* memory, std::uint32_t pages) const noexcept {
  const auto first = number_of(memory, pages);
  if (!first || !parted_.load(std::memory_order_acquire)) return first;
  for (std::uint32_t page = *first; page < *first + pages; ++page) {
    if ((parts_[page / kBits].load(std::memory_order_relaxed) >> page % kBits & 1) != 0) return std::nullopt;
  }
  return first;
}

// Not found any more before they are others: what is asked for in between names pages that have the same bytes.
bool Dock::part(std::byte* memory, std::uint32_t pages) noexcept {
  const auto first = number_of(memory, pages);
  if (!first) return true;
  for (std::uint32_t page = *first; page < *first + pages; ++page) {
    parts_[page / kBits].fetch_or(std::uint64_t{1} << page % kBits, std::memory_order_relaxed);
  }
  parted_.store(true, std::memory_order_release);
  const std::size_t bytes = std::size_t{pages} << kPageShift;
  void* const fresh = ::mmap(OwnPlace::take(bytes), bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (fresh == MAP_FAILED) return false;
  std::memcpy(fresh, memory, bytes);
  // In one step: whoever reads there finds the same bytes before and after.
  if (::mremap(fresh, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, memory) == memory) return true;
  ::munmap(fresh, bytes);
  return false;
}

}  // namespace comex
