// A protection domain of one device: connections reach memory that is registered in the same domain, and no other. The
// client has one for each link; the node one for each family of clients (see "Who may touch a frame" in
// docs/design-notes.md).
//
// Thread safety: all functions from any thread. Not for the fault path.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <memory>
#include <mutex>

#include "base/expected.h"

namespace comex {

struct RdmaLibrary;

// Memory that the device may use; until this is destroyed. When the destructor returns, the device has stopped.
class RdmaMemory {
 public:
  RdmaMemory() = default;
  RdmaMemory(const RdmaLibrary& library, ibv_mr* region) : library_(&library), region_(region) {}
  RdmaMemory(RdmaMemory&& other) noexcept;
  RdmaMemory& operator=(RdmaMemory&& other) noexcept;
  ~RdmaMemory();

  [[nodiscard]] explicit operator bool() const { return region_ != nullptr; }
  [[nodiscard]] std::uint32_t local_key() const { return region_->lkey; }
  [[nodiscard]] std::uint32_t remote_key() const { return region_->rkey; }

 private:
  const RdmaLibrary* library_ = nullptr;
  ibv_mr* region_ = nullptr;
};

class RdmaDomain {
 public:
  explicit RdmaDomain(const RdmaLibrary& library) : library_(library) {}
  // REQUIRES: nothing is registered or connected in it any more.
  ~RdmaDomain();
  RdmaDomain(const RdmaDomain&) = delete;
  RdmaDomain& operator=(const RdmaDomain&) = delete;

  [[nodiscard]] const RdmaLibrary& library() const { return library_; }
  // The domain itself, which is made on the device that is named first. Errc::unsupported for another.
  Expected<ibv_pd*> on(ibv_context* device);
  // `access`: IBV_ACCESS_*. REQUIRES: on() has succeeded.
  Expected<RdmaMemory> enroll(std::byte* memory, std::size_t bytes, unsigned access);

 private:
  const RdmaLibrary& library_;
  std::mutex mutex_;  // guards domain_
  ibv_pd* domain_ = nullptr;
};

// Pages that are ours, registered: they do not go to forked children, whose copies the device would not see.
class RdmaPages {
 public:
  static Expected<RdmaPages> make(RdmaDomain& domain, std::size_t bytes);
  RdmaPages() = default;
  RdmaPages(RdmaPages&& other) noexcept;
  RdmaPages& operator=(RdmaPages&& other) noexcept;
  ~RdmaPages();

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::uint32_t key() const { return memory_.local_key(); }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  RdmaMemory memory_;
};

}  // namespace comex
