#include "node/client.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <utility>

namespace comex {

Expected<FencePage> FencePage::make() {
  FencePage page;
  page.fd_ = Fd(memfd_create("comex-fence", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!page.fd_ || ftruncate(page.fd_.get(), kPageSize) != 0) return system_error("cannot make a fence page");
  void* at = mmap(nullptr, kPageSize, PROT_READ | PROT_WRITE, MAP_SHARED, page.fd_.get(), 0);
  if (at == MAP_FAILED) return system_error("cannot map a fence page");
  page.word_ = static_cast<std::atomic<std::uint32_t>*>(at);
  // Our mapping stays writable; nobody else can write it, by any means, or change its size.
  if (fcntl(page.fd_.get(), F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) != 0) {
    return system_error("cannot seal a fence page");
  }
  return page;
}

void Client::cut_direct() noexcept {
  for (const auto& connection : direct) {
    if (const auto there = connection.lock()) there->shut();
  }
  direct.clear();
}

FencePage::FencePage(FencePage&& other) noexcept
    : fd_(std::move(other.fd_)), word_(std::exchange(other.word_, nullptr)) {}

FencePage& FencePage::operator=(FencePage&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(word_, other.word_);
  return *this;
}

FencePage::~FencePage() {
  if (word_ != nullptr) munmap(word_, kPageSize);
}

void FencePage::raise() noexcept {
  if (word_ != nullptr) word_->store(1, std::memory_order_seq_cst);
}

}  // namespace comex
