#include "run/keeper/far_dock.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "fabric/dock.h"

namespace comex {

Expected<std::shared_ptr<FarDock>> FarDock::open(Pool& pool, NodeId node, std::uint64_t link, const Fd& file) {
  constexpr int kFixed = F_SEAL_SHRINK | F_SEAL_GROW;
  struct stat found {};
  const int seals = ::fcntl(file.get(), F_GET_SEALS);  // -1: not a file of memory
  const bool fixed = seals >= 0 && (seals & kFixed) == kFixed && ::fstat(file.get(), &found) == 0;
  const auto bytes = static_cast<std::size_t>(found.st_size);
  if (!fixed || bytes == 0 || bytes > Dock::kMostBytes || bytes % kPageSize != 0) {
    return Error{Errc::invalid, "what a process wants its pages moved to is no memory that could be used for it"};
  }
  void* const at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (at == MAP_FAILED) return system_error("no memory for a lane");
  ::madvise(at, bytes, MADV_DONTDUMP);  // with --encrypt the keeper has pages nowhere else as they are
  return std::shared_ptr<FarDock>(new FarDock(pool, node, link, {static_cast<std::byte*>(at), bytes}));
}

FarDock::FarDock(Pool& pool, NodeId node, std::uint64_t link, std::span<std::byte> memory)
    : pool_(pool), node_(node), link_(link), memory_(memory) {
  const auto way = pool_.enter(node_);
  if (!way || way->number() != link_) return;
  if (const auto known = way->enlist(memory_); !known) {
    spdlog::warn("pages are copied once more: {}", known.error().message);
  }
}

FarDock::~FarDock() {
  {
    const auto way = pool_.enter(node_);
    if (way && way->number() == link_) way->delist(memory_);
  }
  ::munmap(memory_.data(), memory_.size());
}

Expected<std::shared_ptr<FarDock>> FarDocks::open(NodeId node, std::uint64_t link, const Fd& file) {
  struct stat found {};
  if (::fstat(file.get(), &found) != 0) return system_error("no memory for a lane");
  const Key key{found.st_dev, found.st_ino, link};
  const std::lock_guard lock(mutex_);
  std::erase_if(docks_, [](const auto& dock) { return dock.second.expired(); });
  if (const auto known = docks_.find(key); known != docks_.end()) {
    if (auto dock = known->second.lock()) return dock;
  }
  auto made = FarDock::open(pool_, node, link, file);
  if (made) docks_[key] = *made;
  return made;
}

}  // namespace comex
