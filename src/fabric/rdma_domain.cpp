#include "fabric/rdma_domain.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <utility>

#include "base/units.h"
#include "fabric/rdma_library.h"

namespace comex {

RdmaMemory::RdmaMemory(RdmaMemory&& other) noexcept
    : library_(other.library_), region_(std::exchange(other.region_, nullptr)) {}

RdmaMemory& RdmaMemory::operator=(RdmaMemory&& other) noexcept {
  std::swap(library_, other.library_);
  std::swap(region_, other.region_);
  return *this;
}

RdmaMemory::~RdmaMemory() {
  if (region_ != nullptr) library_->dereg_mr(region_);
}

RdmaDomain::~RdmaDomain() {
  if (domain_ != nullptr) library_.dealloc_pd(domain_);
}

Expected<ibv_pd*> RdmaDomain::on(ibv_context* device) {
  const std::lock_guard lock(mutex_);
  if (domain_ == nullptr) domain_ = library_.alloc_pd(device);
  if (domain_ == nullptr) return rdma_error("cannot make a protection domain");
  if (domain_->context != device) return Error{Errc::unsupported, "all connections of a client must use one device"};
  return domain_;
}

Expected<RdmaMemory> RdmaDomain::enroll(std::byte* memory, std::size_t bytes, unsigned access) {
  ibv_mr* const region = library_.reg_mr(domain_, memory, bytes, static_cast<int>(access));
  if (region == nullptr) return rdma_error(fmt::format("cannot register {} of memory for RDMA", format_size(bytes)));
  return RdmaMemory(library_, region);
}

Expected<RdmaPages> RdmaPages::make(RdmaDomain& domain, std::size_t bytes) {
  RdmaPages pages;
  void* const at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return system_error("cannot get memory for RDMA");
  pages.data_ = static_cast<std::byte*>(at);
  pages.bytes_ = bytes;
  if (::madvise(at, bytes, MADV_DONTFORK) != 0) return system_error("cannot keep memory from children");
  auto memory = domain.enroll(pages.data_, bytes, IBV_ACCESS_LOCAL_WRITE);
  if (!memory) return std::move(memory).error();
  pages.memory_ = *std::move(memory);
  return pages;
}

RdmaPages::RdmaPages(RdmaPages&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      memory_(std::move(other.memory_)) {}

RdmaPages& RdmaPages::operator=(RdmaPages&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(memory_, other.memory_);
  return *this;
}

RdmaPages::~RdmaPages() {
  memory_ = {};
  if (data_ != nullptr) ::munmap(data_, bytes_);
}

}  // namespace comex
