// What is to happen when, in simulated time. What happens at the same time happens in the order in which it was
// planned, so that a seed gives one run. Not thread-safe.
#pragma once

#include <cstdint>
#include <queue>
#include <vector>

namespace comex::sim {

template <typename What>
class Events {
 public:
  struct Event {
    double at;
    std::uint64_t number;
    What what;
  };

  // REQUIRES: at >= now().
  void plan(double at, What what) { queue_.push({at, planned_++, what}); }
  [[nodiscard]] bool empty() const { return queue_.empty(); }
  [[nodiscard]] double next_at() const { return queue_.top().at; }
  // Goes on to the next. REQUIRES: not empty.
  What next() {
    const Event event = queue_.top();
    queue_.pop();
    now_ = event.at;
    return event.what;
  }
  [[nodiscard]] double now() const { return now_; }

 private:
  struct Later {
    bool operator()(const Event& a, const Event& b) const { return a.at != b.at ? a.at > b.at : a.number > b.number; }
  };
  std::priority_queue<Event, std::vector<Event>, Later> queue_;
  std::uint64_t planned_ = 0;
  double now_ = 0;
};

}  // namespace comex::sim
