#include "bench/goals.h"

#include <fmt/format.h>

namespace comex::bench {

namespace {

constexpr double kShmFactor = 1.5;     // of a memcpy of the page ...
constexpr double kShmAllowance = 0.3;  // ... and this many microseconds
constexpr double kTcpFactor = 1.3;     // of the bare ping-pong
constexpr double kRdmaFactor = 1.15;   // of ib_read_lat
constexpr double kPeerFactor = 2.0;    // faster than redis and nbdkit
constexpr double kStreamShare = 0.80;  // of the bare stream
constexpr double kFramesPerSecond = 1e6;
constexpr Latency kReadPage{Direction::read, 1};

Goal unmeasured(Goal goal) {
  goal.figure = "not measured";
  return goal;
}

Goal shm_read(const Figures& figures) {
  Goal goal{"shm: reading a page", fmt::format("at most {} x memcpy + {} us", kShmFactor, kShmAllowance), {}, 0, 1, {}};
  const LatencySeries* shm = figures.find(kComexShm, kReadPage);
  const LatencySeries* copy = figures.find(kMemcpy, kReadPage);
  if (shm == nullptr || copy == nullptr) return unmeasured(std::move(goal));
  std::vector<double> shares;
  std::vector<double> limits;
  for (std::size_t i = 0; i < std::min(shm->rounds.size(), copy->rounds.size()); ++i) {
    limits.push_back(kShmFactor * copy->rounds[i].p50 + kShmAllowance);
    shares.push_back(shm->rounds[i].p50 / limits.back());
  }
  goal.value = median(shares);
  goal.met = goal.value <= goal.limit;
  goal.figure = fmt::format("{:.2f} us of {:.2f} us allowed", shm->middle().p50, median(limits));
  return goal;
}

// A page of comex beside that of a peer, both by the same medium.
Goal read_beside(const Figures& figures, std::string_view medium, std::string_view comex, std::string_view peer,
                 std::string_view peer_words, double factor) {
  Goal goal{
      fmt::format("{}: reading a page", medium), fmt::format("at most {} x {}", factor, peer_words), {}, 0, factor, {}};
  const std::optional<double> ratio = figures.ratio(comex, peer, kReadPage);
  if (!ratio) return unmeasured(std::move(goal));
  goal.value = *ratio;
  goal.met = goal.value <= goal.limit;
  goal.figure = fmt::format("{:.2f} x", goal.value);
  return goal;
}

Goal faster_than(const Figures& figures, std::string_view peer) {
  Goal goal{fmt::format("TCP: reading a page, beside {}", peer),
            fmt::format("at least {} x faster", kPeerFactor),
            {},
            0,
            kPeerFactor,
            {}};
  const std::optional<double> ratio = figures.ratio(peer, kComexTcp, kReadPage);
  if (!ratio) return unmeasured(std::move(goal));
  goal.value = *ratio;
  goal.met = goal.value >= goal.limit;
  goal.figure = fmt::format("{:.1f} x", goal.value);
  return goal;
}

// Judged by the worst number of threads; the figure shows each.
Goal batches(const Figures& figures, Direction direction) {
  const std::string_view what = direction == Direction::read ? "reading" : "writing";
  Goal goal{fmt::format("TCP: {} 64-page batches", what),
            fmt::format("at least {:.0f} % of a bare stream", kStreamShare * 100),
            {},
            0,
            kStreamShare,
            {}};
  std::string each;
  for (unsigned threads = 1; threads <= kMostThreads; ++threads) {
    const std::optional<double> ratio = figures.ratio(kComexTcp, kBareTcp, direction, threads);
    if (!ratio) return unmeasured(std::move(goal));
    goal.value = threads == 1 ? *ratio : std::min(goal.value, *ratio);
    each += fmt::format("{}{:.0f}", each.empty() ? "" : ", ", *ratio * 100);
  }
  goal.met = goal.value >= goal.limit;
  goal.figure = fmt::format("{} % with 1 to {} threads", each, kMostThreads);
  return goal;
}

Goal allocation(const Figures& figures) {
  Goal goal{"taking frames at hand", "at least 1 million a second", {}, 0, kFramesPerSecond, {}};
  if (!figures.allocation) return unmeasured(std::move(goal));
  goal.value = figures.allocation->single;
  goal.met = goal.value >= goal.limit;
  goal.figure = fmt::format("{:.1f} million one by one, {:.0f} million in runs of {}", goal.value / 1e6,
                            figures.allocation->in_runs / 1e6, kBatchPages);
  return goal;
}

}  // namespace

std::vector<Goal> judge(const Figures& figures) {
  std::vector<Goal> goals{shm_read(figures),
                          read_beside(figures, "TCP", kComexTcp, kBareTcp, "a bare ping-pong", kTcpFactor),
                          faster_than(figures, kRedis),
                          faster_than(figures, kNbdkit),
                          batches(figures, Direction::read),
                          batches(figures, Direction::write),
                          allocation(figures)};
  // Most machines have no RDMA, and nothing is missing there.
  if (figures.find(kComexRdma, kReadPage) != nullptr) {
    goals.push_back(read_beside(figures, "RDMA", kComexRdma, kPerftest, "ib_read_lat", kRdmaFactor));
  }
  return goals;
}

}  // namespace comex::bench
