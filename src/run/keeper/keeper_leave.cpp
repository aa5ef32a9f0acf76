// Processes that are gone, until nothing of them can touch a frame any more.
#include <spdlog/spdlog.h>

#include <algorithm>

#include "run/keeper/keeper_server.h"

namespace comex {
namespace {

constexpr Millis kLongestPause{1000};

}  // namespace

bool KeeperServer::leave_all() {
  bool somebody_left = false;
  for (auto at = processes_.begin(); at != processes_.end();) {
    const bool over = !at->second->talking() && leave(*at->second);
    somebody_left |= over;
    at = over ? processes_.erase(at) : std::next(at);
  }
  return somebody_left && processes_.empty();
}

bool KeeperServer::leave(Process& process) {
  const auto now = Clock::now();
  if (!process.ending_lanes) {
    if (now < process.look_at) return false;
    // The end of its socket or its process id was a hint; this is certain.
    if (process.lifeline && process.lifeline->held()) {
      process.look_at = now + process.look_pause;
      process.look_pause = std::min(process.look_pause * 2, kLongestPause);
      return false;
    }
    process.late_at = now + config_.lane_end_grace;
  }
  process.look_at = now + config_.look_again;
  const bool first = !std::exchange(process.ending_lanes, true);
  for (auto at = process.nodes.begin(); at != process.nodes.end();) {
    bool unclean = false;
    if (!lanes_ended(at->second, first, now >= process.late_at, &unclean)) {
      ++at;
      continue;
    }
    if (unclean) give_up_lanes(process, at->second, nodes_.at(at->first));
    at = process.nodes.erase(at);
  }
  if (!process.nodes.empty()) return false;
  book_.release(process.holder, free_);
  return true;
}

// True when no write that the dead process sent to this node can land any more, or when that cannot be known by them.
bool KeeperServer::lanes_ended(KeptNode& kept, bool first, bool late, bool* unclean) {
  *unclean = kept.state == KeptNode::Lanes::over;
  for (auto lane = kept.lanes.begin(); lane != kept.lanes.end() && !*unclean;) {
    const LaneEnd end = first ? begin_lane_end(lane->get()) : see_lane_end(lane->get());
    *unclean = end == LaneEnd::unclean || (end == LaneEnd::waiting && late);
    if (end == LaneEnd::waiting && first) watch_lane(lane->get());
    lane = end == LaneEnd::clean ? kept.lanes.erase(lane) : std::next(lane);
  }
  return kept.lanes.empty() || *unclean;
}

// What it had there is nobody's before the link is another, which makes an end of all older lanes.
void KeeperServer::give_up_lanes(const Process& process, const KeptNode& kept, Node& node) {
  for (std::uint32_t number = 0; number < store_->end(); ++number) {
    if (process.holder.holds_any_of(kHome, number)) unsettle(ChunkNo{number}, node);
  }
  pool_.renew_link(node.id, kept.link);
}

}  // namespace comex
