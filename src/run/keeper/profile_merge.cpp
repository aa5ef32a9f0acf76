#include "run/keeper/profile_merge.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "pager/prefetch/follower.h"
#include "run/keeper/score_writer.h"

namespace comex {
namespace {

// What is to be put behind places of a process' sequence, and threads that have no place there.
struct Additions {
  std::multimap<std::uint32_t, std::uint64_t> behind;
  std::vector<std::vector<std::uint64_t>> apart;
};

Additions additions_to(const ProfiledProcess& before, const ProfiledProcess& now) {
  const ScoreArrays arrays(before);
  const Sequence sequence = arrays.sequence();
  Additions additions;
  for (const auto& thread : now.threads) {
    Follower follower;
    for (const std::uint64_t page : thread) {
      const bool known = follower.go_to(PageKey{page}, sequence);
      if (!known && follower.at() != Sequence::kNowhere) additions.behind.emplace(follower.at(), page);
    }
    if (follower.at() == Sequence::kNowhere) additions.apart.push_back(thread);
  }
  return additions;
}

// Places count on over all threads, and over a break between two of them.
ProfiledProcess merge(const ProfiledProcess& before, const ProfiledProcess& now) {
  Additions additions = additions_to(before, now);
  ProfiledProcess both{before.name, before.executable, now.arguments, {}};
  std::uint32_t place = 0;
  for (const auto& thread : before.threads) {
    auto& longer = both.threads.emplace_back();
    for (const std::uint64_t page : thread) {
      longer.push_back(page);
      const auto [begin, end] = additions.behind.equal_range(place++);
      for (auto each = begin; each != end; ++each) longer.push_back(each->second);
    }
    ++place;
  }
  for (auto& thread : additions.apart) both.threads.push_back(std::move(thread));
  return both;
}

}  // namespace

Profile merge(Profile before, const Profile& now) {
  std::vector<bool> taken(before.processes.size());
  for (const ProfiledProcess& process : now.processes) {
    // As processes choose their part of a score.
    std::optional<std::size_t> found;
    for (std::size_t i = 0; i < taken.size(); ++i) {
      const ProfiledProcess& other = before.processes[i];
      if (taken[i] || other.executable != process.executable) continue;
      const bool same = other.arguments == process.arguments;
      if (same || !found) found = i;
      if (same) break;
    }
    if (found) {
      taken[*found] = true;
      before.processes[*found] = merge(before.processes[*found], process);
    } else if (before.processes.size() < Profile::kMostProcesses) {
      before.processes.push_back(process);
    }
  }
  return before;
}

}  // namespace comex
