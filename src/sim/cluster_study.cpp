#include "sim/cluster_study.h"

#include <algorithm>
#include <array>
#include <memory>
#include <optional>

#include "base/units.h"
#include "node/arena.h"
#include "node/buddy.h"
#include "pool/mend_queue.h"
#include "pool/placement.h"
#include "sim/events.h"
#include "sim/random.h"

namespace comex::sim {

namespace {

constexpr double kMinute = 60;
constexpr double kHour = 60 * kMinute;
constexpr double kDay = 24 * kHour;
constexpr double kSampleEvery = 10 * kMinute;
constexpr double kAskAgain = std::chrono::duration<double>(kMendAgain).count();
constexpr double kSpread = 1.0;  // of the sizes of programs: sigma of their logarithm
constexpr std::uint32_t kNobody = UINT32_MAX;

struct ClusterEvent {
  enum class Kind : std::uint8_t { change, end, fail, back, notice, repair, sample } kind;
  std::uint32_t who = 0;
  std::uint32_t failure = 0;
};

struct Copy {
  std::uint32_t node = kNobody;
  FrameNo first;
};

struct Chunk {
  std::array<Copy, ClusterStudy::kMostCopies> copies;
  std::uint32_t failure = 0;  // that took the copy which is missing
};

struct Node {
  std::unique_ptr<Buddy> frames;
  bool up = true;
};

struct Client {
  Client(std::uint32_t number, std::uint32_t nodes)
      : placement(NodeId{static_cast<std::uint16_t>(number)}, number, nodes, number) {
    current.fill(kNobody);
  }
  Placement placement;
  std::array<std::uint32_t, ClusterStudy::kMostCopies> current;  // where it goes, by copy, while others are full
  std::vector<Chunk> chunks;
  MendQueue thin;  // of them, by number; some may have got all their copies, or be others by now
  bool repairing = false;
  std::uint32_t life = 0;
};

class ClusterSimulation {
 public:
  explicit ClusterSimulation(const ClusterStudy& study) : study_(study), random_(study.seed) {
    nodes_.resize(study.nodes);
    candidates_.resize(study.nodes);
    for (std::uint32_t i = 0; i < study.nodes; ++i) start_node(i);
    const double memory = static_cast<double>(study.nodes) * study.node_slabs * (1U << Arena::kMinSlabOrder);
    mean_chunks_ = memory * study.use / study.copies / study.clients / kChunkFrames;
    for (std::uint32_t i = 0; i < study.clients; ++i) {
      clients_.emplace_back(i, study.nodes);
      begin_program(i);
    }
    if (study.node_days > 0) {
      for (std::uint32_t i = 0; i < study.nodes; ++i) plan_failure(i);
    }
    events_.plan(kSampleEvery, {ClusterEvent::Kind::sample});
  }

  ClusterResult run() {
    const double end = study_.days * kDay;
    while (!events_.empty() && events_.next_at() <= end) {
      const ClusterEvent what = events_.next();
      switch (what.kind) {
        case ClusterEvent::Kind::change: change(what.who, what.failure); break;
        case ClusterEvent::Kind::end: end_program(what.who, what.failure); break;
        case ClusterEvent::Kind::fail: fail(what.who); break;
        case ClusterEvent::Kind::back: come_back(what.who); break;
        case ClusterEvent::Kind::notice: notice(what.failure); break;
        case ClusterEvent::Kind::repair: repair(what.who); break;
        case ClusterEvent::Kind::sample: sample(); break;
      }
    }
    return sum_up();
  }

 private:
  // --- nodes ---
  void start_node(std::uint32_t i) {
    nodes_[i].frames = std::make_unique<Buddy>(study_.node_slabs, Arena::kMinSlabOrder);
    nodes_[i].up = true;
    look_at(i);
  }

  // What clients know of it: whether it has extents of the usual size, and how much is free.
  void look_at(std::uint32_t i) {
    const Buddy& frames = *nodes_[i].frames;
    const bool serves = frames.largest_free() >= kChunkFrames;
    candidates_[i] = {nodes_[i].up && serves, frames.free_frames()};
  }

  void plan_failure(std::uint32_t i) {
    events_.plan(events_.now() + random_.exponential(study_.node_days * kDay), {ClusterEvent::Kind::fail, i});
  }

  void fail(std::uint32_t i) {
    ++result_.failures;
    nodes_[i].up = false;
    candidates_[i].usable = false;
    const auto failure = static_cast<std::uint32_t>(failures_.size());
    failures_.push_back({events_.now(), 1});  // until all have been looked at
    for (Client& client : clients_) lose_copies(client, i, failure);
    settle(failure);
    events_.plan(events_.now() + study_.notice_seconds, {ClusterEvent::Kind::notice, 0, failure});
    events_.plan(events_.now() + study_.node_back_minutes * kMinute, {ClusterEvent::Kind::back, i});
  }

  void come_back(std::uint32_t i) {
    start_node(i);
    plan_failure(i);
  }

  // --- frames ---
  // As Pool::choose: a node once drawn is kept as long as it serves.
  std::optional<std::size_t> choose(Client& client, std::uint32_t current) {
    const bool first_two =
        candidates_[client.placement.preferred()].usable || candidates_[client.placement.alternative()].usable;
    if (!first_two && current != kNobody && candidates_[current].usable) return current;
    return client.placement.choose(candidates_);
  }

  // For the copy of that number. Nodes whose domain has a copy already are left out.
  std::optional<Copy> place(Client& client, const Chunk& chunk, std::size_t number) {
    left_out_.clear();
    for (const Copy& copy : chunk.copies) {
      if (copy.node == kNobody) continue;
      for (std::uint32_t i = copy.node % study_.domains; i < study_.nodes; i += study_.domains) {
        if (!candidates_[i].usable) continue;
        candidates_[i].usable = false;
        left_out_.push_back(i);
      }
    }
    const auto node = choose(client, client.current[number]);
    for (const std::uint32_t i : left_out_) candidates_[i].usable = true;
    if (!node) return std::nullopt;
    client.current[number] = static_cast<std::uint32_t>(*node);
    const auto extent = nodes_[*node].frames->allocate(kCommonZone, kUsualMinOrder);
    look_at(static_cast<std::uint32_t>(*node));
    return Copy{static_cast<std::uint32_t>(*node), extent->first};
  }

  void release(Copy& copy) {
    if (copy.node != kNobody && nodes_[copy.node].up) {
      nodes_[copy.node].frames->free(Extent{copy.first, kChunkFrames});
      look_at(copy.node);
    }
    copy.node = kNobody;
  }

  // --- programs ---
  void begin_program(std::uint32_t who) {
    Client& client = clients_[who];
    ++client.life;
    // The events of a life that is over are void.
    const double life = random_.exponential(study_.life_hours * kHour);
    events_.plan(events_.now() + life, {ClusterEvent::Kind::end, who, client.life});
    plan_change(who);
    change_size(client);
  }

  void plan_change(std::uint32_t who) {
    const double wait = random_.exponential(study_.change_minutes * kMinute);
    events_.plan(events_.now() + wait, {ClusterEvent::Kind::change, who, clients_[who].life});
  }

  void change(std::uint32_t who, std::uint32_t life) {
    if (life != clients_[who].life) return;
    change_size(clients_[who]);
    plan_change(who);
  }

  void change_size(Client& client) {
    const auto wanted = static_cast<std::size_t>(random_.log_normal(mean_chunks_, kSpread));
    while (client.chunks.size() > wanted) drop_one(client, random_.below(client.chunks.size()));
    while (client.chunks.size() < wanted) {
      ++result_.asked;
      if (add_one(client)) continue;
      result_.refused += wanted - client.chunks.size();
      result_.asked += wanted - client.chunks.size() - 1;
      result_.use_when_refused = std::min(result_.use_when_refused, mean_use());
      break;
    }
  }

  bool add_one(Client& client) {
    Chunk chunk;
    for (std::uint32_t i = 0; i < study_.copies; ++i) {
      const auto copy = place(client, chunk, i);
      if (!copy) {
        for (Copy& each : chunk.copies) release(each);
        return false;
      }
      chunk.copies[i] = *copy;
    }
    client.chunks.push_back(chunk);
    return true;
  }

  void drop_one(Client& client, std::size_t i) {
    Chunk& chunk = client.chunks[i];
    if (missing(chunk)) settle(chunk.failure);
    for (Copy& copy : chunk.copies) release(copy);
    client.chunks[i] = client.chunks.back();
    client.chunks.pop_back();
    if (i < client.chunks.size() && missing(client.chunks[i])) to_be_repaired(client, i);
  }

  void to_be_repaired(Client& client, std::size_t i) const {
    client.thin.push(static_cast<std::uint32_t>(i), study_.copies - gone(client.chunks[i]));
  }

  void end_program(std::uint32_t who, std::uint32_t life) {
    Client& client = clients_[who];
    if (life != client.life) return;
    while (!client.chunks.empty()) drop_one(client, client.chunks.size() - 1);
    begin_program(who);
  }

  // --- failures ---
  struct Failure {
    double at = 0;
    std::uint64_t missing = 0;  // chunks that have not got their copy again
  };

  [[nodiscard]] std::uint32_t gone(const Chunk& chunk) const {
    const auto first = chunk.copies.begin();
    return static_cast<std::uint32_t>(
        std::count_if(first, first + study_.copies, [](const Copy& copy) { return copy.node == kNobody; }));
  }
  [[nodiscard]] bool missing(const Chunk& chunk) const { return gone(chunk) > 0; }

  void lose_copies(Client& client, std::uint32_t node, std::uint32_t failure) {
    bool dead = false;
    for (std::size_t i = 0; i < client.chunks.size(); ++i) {
      Chunk& chunk = client.chunks[i];
      const auto first = chunk.copies.begin();
      const auto last = first + study_.copies;
      const auto lost = std::find_if(first, last, [&](const Copy& copy) { return copy.node == node; });
      if (lost == last) continue;
      if (missing(chunk)) settle(chunk.failure);
      lost->node = kNobody;
      ++result_.copies_lost;
      to_be_repaired(client, i);
      if (gone(chunk) == study_.copies) {
        ++result_.chunks_lost;
        dead = true;
      }
      chunk.failure = failure;
      ++failures_[failure].missing;
    }
    if (!dead) return;
    ++result_.programs_lost;
    const auto who = static_cast<std::uint32_t>(&client - clients_.data());
    end_program(who, client.life);
  }

  // One chunk less that this failure has left without a copy.
  void settle(std::uint32_t failure) {
    Failure& of = failures_[failure];
    if (--of.missing == 0) result_.repair_seconds.push_back(events_.now() - of.at);
  }

  // All who lost something begin to repair.
  void notice(std::uint32_t failure) {
    if (failures_[failure].missing == 0) return;
    for (std::uint32_t who = 0; who < clients_.size(); ++who) {
      Client& client = clients_[who];
      if (client.repairing || client.thin.empty()) continue;
      client.repairing = true;
      plan_repair(who);
    }
  }

  void plan_repair(std::uint32_t who, double at_least = 0) {
    const double mib = kScale * kChunkFrames * kPageSize / (1 << 20);
    events_.plan(events_.now() + std::max(at_least, mib / study_.repair_mib_per_second),
                 {ClusterEvent::Kind::repair, who});
  }

  // One copy of one chunk has been made.
  void repair(std::uint32_t who) {
    Client& client = clients_[who];
    const auto next =
        client.thin.take([&](std::uint32_t i) { return i < client.chunks.size() && missing(client.chunks[i]); });
    client.repairing = next.has_value();
    if (!next) {
      client.thin = {};
      return;
    }
    Chunk& chunk = client.chunks[*next];
    std::size_t hole = 0;
    while (chunk.copies[hole].node != kNobody) ++hole;
    const auto copy = place(client, chunk, hole);
    if (copy) {
      chunk.copies[hole] = *copy;
      ++result_.copies_made;
    }
    if (missing(chunk)) {
      to_be_repaired(client, *next);
    } else {
      settle(chunk.failure);
    }
    plan_repair(who, copy ? 0 : kAskAgain);
  }

  // --- figures ---
  [[nodiscard]] double mean_use() const {
    double used = 0;
    double all = 0;
    for (const Node& node : nodes_) {
      if (!node.up) continue;
      used += node.frames->frames() - node.frames->free_frames();
      all += node.frames->frames();
    }
    return all > 0 ? used / all : 0;
  }

  void sample() {
    ClusterResult::Sample sample{events_.now() / kHour, mean_use(), 0};
    for (const Node& node : nodes_) {
      if (!node.up) continue;
      const double used = node.frames->frames() - node.frames->free_frames();
      sample.most_use = std::max(sample.most_use, used / node.frames->frames());
    }
    result_.samples.push_back(sample);
    std::uint64_t chunks = 0;
    for (const Client& client : clients_) chunks += client.chunks.size();
    result_.chunk_days += static_cast<double>(chunks) * kSampleEvery / kDay;
    events_.plan(events_.now() + kSampleEvery, {ClusterEvent::Kind::sample});
  }

  ClusterResult sum_up() {
    for (const ClusterResult::Sample& sample : result_.samples) {
      const double ratio = sample.mean_use > 0 ? sample.most_use / sample.mean_use : 0;
      result_.balance += ratio / static_cast<double>(result_.samples.size());
      result_.worst_balance = std::max(result_.worst_balance, ratio);
    }
    std::sort(result_.repair_seconds.begin(), result_.repair_seconds.end());
    return std::move(result_);
  }

  const ClusterStudy& study_;
  Random random_;
  std::vector<Node> nodes_;
  std::vector<Placement::Candidate> candidates_;
  std::vector<std::uint32_t> left_out_;  // of the candidates, for a moment
  std::vector<Client> clients_;
  std::vector<Failure> failures_;
  Events<ClusterEvent> events_;
  double mean_chunks_ = 0;
  ClusterResult result_;
};

}  // namespace

ClusterResult simulate_cluster(const ClusterStudy& study) {
  return ClusterSimulation(study).run();
}

}  // namespace comex::sim
