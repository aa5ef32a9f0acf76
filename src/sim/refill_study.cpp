#include "sim/refill_study.h"

#include <algorithm>

#include "pool/placement.h"
#include "sim/events.h"
#include "sim/random.h"

namespace comex::sim {

namespace {

struct RefillEvent {
  enum class Kind : std::uint8_t { begin, end, low, reply } kind;
  std::uint32_t client;
  std::uint32_t version;  // of the client's plan when this was planned: an older one is void
};

class RefillSimulation {
 public:
  RefillSimulation(const RefillStudy& study, std::uint32_t threshold)
      : study_(study), fixed_(threshold), random_(study.seed), nodes_(study.nodes) {
    clients_.reserve(study.clients);
    for (std::uint32_t i = 0; i < study.clients; ++i) {
      const Placement placement(NodeId{static_cast<std::uint16_t>(i)}, i, study.nodes, i);
      clients_.emplace_back(config_, static_cast<std::uint32_t>(placement.preferred()));
      Client& client = clients_.back();
      client.rate = study.peak_pages_per_us * (0.05 + 0.95 * random_.uniform());
      client.at_hand = config_.min_threshold;
      events_.plan(random_.exponential(study.pause_us), {RefillEvent::Kind::begin, i, 0});
    }
  }

  RefillResult run() {
    const double end = study_.seconds * 1e6;
    while (!events_.empty() && events_.next_at() <= end) {
      const RefillEvent what = events_.next();
      Client& client = clients_[what.client];
      settle(client);
      switch (what.kind) {
        case RefillEvent::Kind::begin: begin(what.client); break;
        case RefillEvent::Kind::end: pause(what.client); break;
        case RefillEvent::Kind::low:
          if (what.version == client.version) ask(what.client);
          break;
        case RefillEvent::Kind::reply: receive(what.client); break;
      }
    }
    return sum_up(end);
  }

 private:
  struct Node {
    double free_at = 0;     // when it has served what has reached it so far
    double service_us = 0;  // of the requests lately, as a node tells its clients
  };

  struct Client {
    Client(const RefillConfig& config, std::uint32_t preferred) : node(preferred), estimator(config) {}
    std::uint32_t node;
    RefillEstimator estimator;
    double rate = 0;  // frames per microsecond, in a burst
    bool bursting = false;
    bool asking = false;
    std::uint32_t version = 0;
    double settled_at = 0;
    double at_hand = 0;
    double asked_at = 0;
    double asked = 0;
    double expected_us = 0;
    double taken = 0;
    double burst_us = 0;
    double stood_us = 0;
    double idle = 0;  // frames at hand, times microseconds
  };

  // What has happened to it since it was last looked at. A program that finds nothing stands still.
  void settle(Client& client) {
    const double passed = events_.now() - client.settled_at;
    client.settled_at = events_.now();
    if (!client.bursting) {
      client.idle += client.at_hand * passed;
      return;
    }
    const double wanted = client.rate * passed;
    const double found = std::min(wanted, client.at_hand);
    client.idle += (client.at_hand - found / 2) * passed;
    client.at_hand -= found;
    client.taken += found;
    client.burst_us += passed;
    client.stood_us += std::max(0.0, passed - found / client.rate);
  }

  [[nodiscard]] std::uint32_t threshold_of(const Client& client) const {
    if (fixed_ > 0) return fixed_;
    return refill_threshold(client.estimator.model(client.rate, study_.nodes), config_);
  }

  void begin(std::uint32_t who) {
    Client& client = clients_[who];
    client.bursting = true;
    events_.plan(events_.now() + random_.exponential(study_.burst_us), {RefillEvent::Kind::end, who, 0});
    plan_request(who);
  }

  void pause(std::uint32_t who) {
    clients_[who].bursting = false;
    ++clients_[who].version;
    events_.plan(events_.now() + random_.exponential(study_.pause_us), {RefillEvent::Kind::begin, who, 0});
  }

  // Asks now, or when so few are left that it is time to.
  void plan_request(std::uint32_t who) {
    Client& client = clients_[who];
    ++client.version;
    if (client.asking || !client.bursting) return;
    const double left = client.at_hand - threshold_of(client);
    events_.plan(events_.now() + std::max(0.0, left / client.rate), {RefillEvent::Kind::low, who, client.version});
  }

  void ask(std::uint32_t who) {
    Client& client = clients_[who];
    const std::uint32_t threshold = threshold_of(client);
    const auto at_hand = static_cast<std::uint32_t>(client.at_hand);
    // Rounding may leave it at the threshold itself.
    const std::uint32_t frames = frames_to_ask(threshold, std::min(at_hand, threshold - 1), config_);
    Node& node = nodes_[client.node];
    const double there = study_.network_us / 4 + random_.exponential(study_.network_us / 4);
    const double service = study_.service_us + study_.service_us_per_frame * frames;
    const double served = std::max(node.free_at, events_.now() + there) + service;
    node.free_at = served;
    node.service_us += (service - node.service_us) / 8;
    client.asking = true;
    client.asked = frames;
    client.asked_at = events_.now();
    client.expected_us = expected_rtt_us(client.estimator.model(client.rate, study_.nodes));
    ++client.version;
    thresholds_ += threshold;
    ++requests_;
    const double back = study_.network_us / 4 + random_.exponential(study_.network_us / 4);
    events_.plan(served + back, {RefillEvent::Kind::reply, who, 0});
  }

  void receive(std::uint32_t who) {
    Client& client = clients_[who];
    client.asking = false;
    client.at_hand += client.asked;
    const double took = events_.now() - client.asked_at;
    round_trips_ += took;
    expected_ += client.expected_us > 0 ? client.expected_us : took;
    ++replies_;
    client.estimator.saw_round_trip(Nanos(static_cast<std::int64_t>(took * 1e3)));
    const Node& node = nodes_[client.node];
    wire::NodeLoad load;
    load.free_frames = UINT32_MAX;
    load.clients = study_.clients;  // all know it, and any of them may ask
    load.service_ns = static_cast<std::uint32_t>(node.service_us * 1e3);
    client.estimator.saw_load(load);
    plan_request(who);
  }

  [[nodiscard]] RefillResult sum_up(double end) const {
    RefillResult result;
    result.threshold = fixed_;
    double burst = 0;
    double stood = 0;
    double idle = 0;
    double taken = 0;
    for (const Client& client : clients_) {
      burst += client.burst_us;
      stood += client.stood_us;
      idle += client.idle;
      taken += client.taken;
      if (client.burst_us > 0) result.worst_client = std::max(result.worst_client, client.stood_us / client.burst_us);
    }
    result.mean_at_hand = idle / end / static_cast<double>(clients_.size());
    result.stood_still = burst > 0 ? stood / burst : 0;
    result.requests = requests_;
    result.frames = static_cast<std::uint64_t>(taken);
    if (requests_ > 0) result.mean_threshold = thresholds_ / static_cast<double>(requests_);
    if (replies_ > 0) {
      result.round_trip_us = round_trips_ / static_cast<double>(replies_);
      result.expected_us = expected_ / static_cast<double>(replies_);
    }
    return result;
  }

  const RefillStudy& study_;
  const std::uint32_t fixed_;
  const RefillConfig config_{};
  Random random_;
  std::vector<Node> nodes_;
  std::vector<Client> clients_;
  Events<RefillEvent> events_;
  double thresholds_ = 0;
  double round_trips_ = 0;
  double expected_ = 0;
  std::uint64_t requests_ = 0;
  std::uint64_t replies_ = 0;
};

}  // namespace

RefillResult simulate_refill(const RefillStudy& study, std::uint32_t threshold) {
  return RefillSimulation(study, threshold).run();
}

}  // namespace comex::sim
