#include "pager/prefetch/follower.h"

#include <algorithm>

namespace comex {

bool Follower::go_to(PageKey page, const Sequence& sequence) noexcept {
  Place place = at_ == Sequence::kNowhere ? Sequence::kNowhere : near(page, sequence);
  if (place == Sequence::kNowhere) {
    ++missed_;
    const bool lost = at_ == Sequence::kNowhere || missed_ >= kLost;
    if (lost && missed_ % kTry == 0) place = anywhere(page, sequence);
  }
  recent_[next_++ % kRecent] = page;
  if (place == Sequence::kNowhere) return false;
  missed_ = 0;
  at_ = place;
  return true;
}

// One that is a little behind leaves it where it is.
Follower::Place Follower::near(PageKey page, const Sequence& sequence) const noexcept {
  constexpr std::uint64_t kNext = 4;
  const std::uint64_t at = at_;
  for (std::uint64_t i = 1; i <= kNext; ++i) {
    const PageKey* const coming = sequence.at(at + i);
    if (coming != nullptr && *coming == page) return static_cast<Place>(at + i);
  }
  const auto places = sequence.places_of(page);
  if (const Place after = Sequence::first_from(places, at + 1); after <= at + kNear) return after;
  const Place before = Sequence::first_from(places, at - std::min<std::uint64_t>(at, kNear));
  return before <= at ? at_ : Sequence::kNowhere;
}

Follower::Place Follower::anywhere(PageKey page, const Sequence& sequence) const noexcept {
  std::span<const Place> places = sequence.places_of(page);
  if (places.empty()) return Sequence::kNowhere;
  if (places.size() > kPlaces && at_ != Sequence::kNowhere) {
    const auto here = static_cast<std::size_t>(std::lower_bound(places.begin(), places.end(), at_) - places.begin());
    places = places.subspan(std::min(here - std::min(here, kPlaces / 2), places.size() - kPlaces));
  }
  places = places.first(std::min(places.size(), kPlaces));
  std::array<std::uint32_t, kPlaces> votes{};
  for (const PageKey recent : recent_) {
    const auto its = sequence.places_of(recent);
    for (std::size_t i = 0; i < places.size() && !its.empty(); ++i) {
      const std::uint64_t place = places[i];
      votes[i] += Sequence::first_from(its, place - std::min<std::uint64_t>(place, kNear)) < place;
    }
  }
  const auto best = std::max_element(votes.begin(), votes.begin() + places.size());
  return *best >= kVotes ? places[static_cast<std::size_t>(best - votes.begin())] : Sequence::kNowhere;
}

}  // namespace comex
