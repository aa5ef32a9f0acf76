// comex itself: one link to one memory node, frames of its own, and page moves straight over the link. What a fault
// would pay, without the pager.
#pragma once

#include <vector>

#include "base/clock.h"
#include "bench/peers/peer.h"
#include "fabric/connect.h"

namespace comex::bench {

class ComexLink : public Peer {
 public:
  // As what a link to there is listed.
  static std::string_view name_of(const Url& url);
  // Asks the node for `pages` frames and takes what it has, down to an eighth; pages() tells.
  static Expected<std::unique_ptr<ComexLink>> create(const Url& url, const LinkOptions& options, std::uint32_t pages);
  ~ComexLink() override;

  [[nodiscard]] std::string_view name() const override { return name_; }
  Errc read(std::uint32_t first, std::uint32_t count, std::byte* into) override;
  Errc write(std::uint32_t first, std::uint32_t count, std::byte* from) override;
  Expected<std::unique_ptr<Batches>> batches(Direction direction) override;
  void enlist(std::span<std::byte> memory) override { static_cast<void>(link_->enlist(memory)); }
  void delist(std::span<std::byte> memory) override { link_->delist(memory); }
  // Page moves over shared memory are not seen by the node: the lease is kept here.
  void keep_alive() override;

  [[nodiscard]] std::uint32_t pages() const { return static_cast<std::uint32_t>(groups_.size()) * kBatchPages; }
  [[nodiscard]] FrameNo frame(std::uint32_t page) const { return groups_[page / kBatchPages] + page % kBatchPages; }
  [[nodiscard]] Link& link() { return *link_; }

 private:
  ComexLink(std::unique_ptr<Link> link, std::string_view name) : link_(std::move(link)), name_(name) {}
  Expected<void> take_frames(std::uint32_t pages);

  std::unique_ptr<Link> link_;
  std::string_view name_;
  // The first frame of each group of kBatchPages pages, which lie in one extent.
  std::vector<FrameNo> groups_;
  Clock::time_point last_beat_ = Clock::now();
};

}  // namespace comex::bench
