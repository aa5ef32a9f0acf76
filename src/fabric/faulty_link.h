// A link with faults, for tests: wraps another and delays, drops, reorders or dies as planned. The same plan and seed
// give the same faults for the same sequence of submissions.
//
// Thread safety: as Link, by one mutex. Not for the fault path.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <random>

#include "fabric/link.h"

namespace comex {

struct FaultPlan {
  std::uint64_t seed = 1;
  Nanos delay{0};                 // completions come this much later
  bool reorder = false;           // completions come in random order
  std::uint64_t drop_every = 0;   // every n-th transfer is lost: nothing moves, and the link times out; 0: none
  std::uint64_t die_at = 0;       // the n-th transfer, and all outstanding, end with an error; 0: never
  Millis transfer_timeout{2000};  // after which a lost transfer breaks the link
};

class FaultyLink final : public Link {
 public:
  FaultyLink(std::unique_ptr<Link> inner, const FaultPlan& plan);
  ~FaultyLink() override;

  void submit(Transfer& transfer) noexcept override;
  void progress() noexcept override;
  Errc wait(Transfer& transfer) noexcept override;
  [[nodiscard]] Errc broken() const noexcept override { return inner_->broken(); }
  void sever(Errc why) noexcept override;
  Expected<void> reach(std::span<const Extent> extents) override { return inner_->reach(extents); }
  void forget(std::span<const Extent> extents) noexcept override { inner_->forget(extents); }
  Expected<void> enlist(std::span<std::byte> memory) override { return inner_->enlist(memory); }
  void delist(std::span<std::byte> memory) noexcept override { inner_->delist(memory); }
  Expected<std::vector<std::byte>> call(wire::Type type, std::span<const std::byte> body) override;

 private:
  // A transfer of the caller and the one that stands for it at the inner link.
  struct Pending {
    Transfer* outer = nullptr;
    std::unique_ptr<Transfer> inner;  // null: dropped
    Clock::time_point due;
  };
  bool ready(const Pending& pending, Clock::time_point now) const;
  void fail_pending(Errc why);

  std::unique_ptr<Link> inner_;
  FaultPlan plan_;
  std::mutex mutex_;  // guards all below
  std::mt19937_64 random_;
  std::uint64_t step_ = 0;
  std::list<Pending> pending_;
};

}  // namespace comex
