#include "bench/peers/comex_link.h"

#include <fmt/format.h>

#include <array>
#include <utility>

namespace comex::bench {

namespace {

constexpr std::uint32_t kGrantFrames = 16384;  // a call; several make up the set
constexpr Millis kBeatEvery{1000};

class Transfers final : public Batches {
 public:
  Transfers(ComexLink& peer, Direction direction) : peer_(peer) {
    for (unsigned slot = 0; slot < kBatchesInFlight; ++slot) {
      transfers_[slot].direction = direction;
      transfers_[slot].priority = Priority::bulk;
      transfers_[slot].segments = std::span(&segments_[slot], 1);
    }
  }
  // After a failure, what is under way must complete: until then it belongs to the link.
  ~Transfers() override {
    for (unsigned slot = 0; slot < kBatchesInFlight; ++slot) static_cast<void>(finish(slot));
  }
  Errc start(unsigned slot, std::uint32_t first, std::byte* local) override {
    segments_[slot] = Segment{peer_.frame(first), kBatchPages, local};
    peer_.link().submit(transfers_[slot]);
    under_way_[slot] = true;
    return Errc::ok;
  }
  Errc finish(unsigned slot) override {
    return std::exchange(under_way_[slot], false) ? peer_.link().wait(transfers_[slot]) : Errc::ok;
  }

 private:
  ComexLink& peer_;
  std::array<Segment, kBatchesInFlight> segments_{};
  std::array<Transfer, kBatchesInFlight> transfers_;
  std::array<bool, kBatchesInFlight> under_way_{};
};

}  // namespace

std::string_view ComexLink::name_of(const Url& url) {
  switch (url.scheme) {
    case Url::Scheme::unix_socket: return kComexShm;
    case Url::Scheme::rdma: return kComexRdma;
    default: return kComexTcp;
  }
}

Expected<std::unique_ptr<ComexLink>> ComexLink::create(const Url& url, const LinkOptions& options,
                                                       std::uint32_t pages) {
  Expected<std::unique_ptr<Link>> link = connect(url, options);
  if (!link) return link.error();
  std::unique_ptr<ComexLink> peer(new ComexLink(*std::move(link), name_of(url)));
  Expected<void> taken = peer->take_frames(pages);
  if (!taken) return Error{taken.error().code, fmt::format("{}: {}", url.text(), taken.error().message)};
  return peer;
}

ComexLink::~ComexLink() {
  link_->bye();
}

Expected<void> ComexLink::take_frames(std::uint32_t pages) {
  const std::size_t wanted = pages / kBatchPages;
  while (groups_.size() < wanted) {
    const auto missing = static_cast<std::uint32_t>(wanted - groups_.size()) * kBatchPages;
    const Expected<wire::GrantReply> granted = link_->grant(std::min(missing, kGrantFrames));
    if (!granted && granted.error().code == Errc::no_memory) break;
    if (!granted) return granted.error();
    for (const Extent& extent : granted->extents) {
      for (std::uint32_t at = 0; at + kBatchPages <= extent.count; at += kBatchPages) {
        if (groups_.size() < wanted) groups_.push_back(extent.first + at);
      }
    }
    if (granted->extents.empty()) break;
  }
  if (groups_.size() >= std::max<std::size_t>(1, wanted / 8)) return {};
  return Error{Errc::no_memory, fmt::format("the node has less than {} free; measure one that lends more",
                                            format_size(std::uint64_t{pages} * kPageSize / 8))};
}

Errc ComexLink::read(std::uint32_t first, std::uint32_t count, std::byte* into) {
  const Segment segment{frame(first), count, into};
  Transfer transfer(Direction::read, std::span(&segment, 1));
  return link_->move(transfer);
}

Errc ComexLink::write(std::uint32_t first, std::uint32_t count, std::byte* from) {
  const Segment segment{frame(first), count, from};
  Transfer transfer(Direction::write, std::span(&segment, 1));
  return link_->move(transfer);
}

Expected<std::unique_ptr<Batches>> ComexLink::batches(Direction direction) {
  return std::unique_ptr<Batches>(std::make_unique<Transfers>(*this, direction));
}

void ComexLink::keep_alive() {
  if (Clock::now() - last_beat_ < kBeatEvery) return;
  last_beat_ = Clock::now();
  // A link that fails here fails the next slice too, which says so.
  static_cast<void>(link_->beat());
}

}  // namespace comex::bench
