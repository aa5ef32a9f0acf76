#include "pool/pool.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace comex {
namespace {

std::uint64_t seed_for(const PoolConfig& config) {
  return std::uint64_t{config.link.nid.value} << 32 | config.pid;
}

PoolConfig with_defaults(PoolConfig config) {
  if (config.pid == 0) config.pid = static_cast<std::uint32_t>(getpid());
  if (!config.on_loss) config.on_loss = [](const Loss&) {};
  if (!config.on_notice) config.on_notice = [](std::string_view) {};
  return config;
}

}  // namespace

Pool::Pool(PoolConfig config, Connector connector)
    : config_(std::move(config)),
      directory_(config_.max_ids),
      placement_(config_.link.nid, config_.pid, config_.nodes.size(), seed_for(config_)) {
  for (auto& each : active_) each = kNobody;
  const auto nodes = static_cast<unsigned>(config_.nodes.size());
  for (std::size_t i = 0; i < nodes; ++i) {
    members_.push_back(std::make_unique<Member>(*directory_.enlist(i), config_.nodes[i], config_.member));
  }
  for (std::size_t i = 0; i < nodes; ++i) {
    keepers_.push_back(std::make_unique<Keeper>(*members_[i], config_.link, connector, nodes,
                                                seed_for(config_) * nodes + i, hooks_for(i)));
  }
  for (const auto& keeper : keepers_) keeper->start();
}

Pool::~Pool() {
  const Deadline deadline(config_.shutdown_grace);
  for (const auto& keeper : keepers_) keeper->request_stop();
  for (const auto& keeper : keepers_) keeper->finish(deadline);
}

Keeper::Hooks Pool::hooks_for(std::size_t member) {
  Keeper::Hooks hooks;
  hooks.new_id = [this, member] { return directory_.enlist(member); };
  hooks.changed = [this] {
    replan();
    announce();
  };
  hooks.frames_arrived = [this] { announce(); };
  hooks.lost = config_.on_loss;
  hooks.notice = config_.on_notice;
  return hooks;
}

Expected<std::unique_ptr<Pool>> Pool::open(PoolConfig config, Connector connector) {
  if (config.nodes.empty()) return Error{Errc::invalid, "no memory node is configured; name one with --pool URL"};
  if (config.nodes.size() > kMaxNodes || config.nodes.size() > config.max_ids) {
    return Error{Errc::invalid, fmt::format("{} memory nodes are configured; at most {} can be used",
                                            config.nodes.size(), std::min<std::size_t>(kMaxNodes, config.max_ids))};
  }
  for (auto url = config.nodes.begin(); url != config.nodes.end(); ++url) {
    if (std::find(config.nodes.begin(), url, *url) == url) continue;
    return Error{Errc::invalid, fmt::format("{} is configured twice; name each memory node once", url->text())};
  }
  std::unique_ptr<Pool> pool(new Pool(with_defaults(std::move(config)), std::move(connector)));
  if (auto opened = pool->wait_until_open(); !opened) return std::move(opened).error();
  return pool;
}

// No time-out of its own: a node that answers slowly takes one for each of its connections, one that is silent the
// first of them only; either way its keeper has tried in the end. Who opens anyway has somebody waiting for that.
Expected<void> Pool::wait_until_open() {
  constexpr Clock::time_point kNever = Clock::time_point::max();
  Clock::time_point end = config_.anyway ? Clock::now() + config_.link.connect_timeout : kNever;
  bool enough = false;
  bool one_up = false;
  for (;;) {
    const auto seen = arrivals_.current();
    const std::size_t up = count_apart();
    const bool all_tried = std::all_of(keepers_.begin(), keepers_.end(), [](const auto& k) { return k->tried(); });
    one_up |= up > 0;
    if (up >= config_.copies && !std::exchange(enough, true)) end = std::min(end, Clock::now() + config_.open_grace);
    if (all_tried || !arrivals_.wait(seen, end)) {
      if (!one_up && !config_.anyway) return nobody_reached();
      opened_ = true;
      replan();
      return {};
    }
  }
}

Error Pool::nobody_reached() const {
  std::string why;
  for (const auto& member : members_) {
    const auto status = member->status();
    const std::string reason = status.last_error.empty() ? "no answer in time" : status.last_error;
    // Most messages name the node already.
    const bool named = reason.find(status.url) != std::string::npos;
    why += fmt::format("{}{}", why.empty() ? "" : "; ", named ? reason : status.url + ": " + reason);
  }
  // Some say so already.
  const bool asked = why.find("comex serve") != std::string::npos;
  return Error{Errc::disconnected,
               fmt::format("no memory node can be used ({}){}", why, asked ? "" : "; is `comex serve` running there?")};
}

// --- which node is used ---

// As Placement says, but a node once drawn is kept as long as it serves: pages stay together.
std::optional<std::size_t> Pool::choose(std::span<const Placement::Candidate> nodes, std::size_t current) {
  const bool first_two = nodes[placement_.preferred()].usable || nodes[placement_.alternative()].usable;
  if (!first_two && current != kNobody && nodes[current].usable) return current;
  return placement_.choose(nodes);
}

void Pool::replan() {
  if (!opened_) return;
  const std::lock_guard lock(plan_mutex_);
  std::vector<Placement::Candidate> nodes(members_.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    // Not usable(): a mere suspicion is settled in a moment, and no reason to give frames back and ask for others.
    const bool up = members_[i]->state() == MemberState::up;
    nodes[i] = {up && !members_[i]->refusing(), members_[i]->load().free_frames};
  }
  std::vector<Placement::Candidate> others = nodes;  // that are not chosen
  std::vector<Role> roles(nodes.size(), Role::idle);
  for (std::uint32_t copy = 0; copy < config_.copies; ++copy) {
    const std::size_t active = choose(nodes, active_[copy]).value_or(kNobody);
    active_[copy] = active;
    // Too few want to give: all give what they have.
    if (active == kNobody) std::replace(roles.begin(), roles.end(), Role::idle, Role::scraps);
    if (active == kNobody) continue;
    roles[active] = Role::active;
    others[active].usable = false;
    for (std::size_t i = 0; i < nodes.size(); ++i) nodes[i].usable = nodes[i].usable && is_apart(i, active);
  }
  const std::size_t standby = choose(others, standby_).value_or(kNobody);
  standby_ = standby;
  if (standby != kNobody) roles[standby] = Role::standby;
  for (std::size_t i = 0; i < members_.size(); ++i) members_[i]->set_role(roles[i]);
}

// --- fault path ---

Member* Pool::find(NodeId node) const noexcept {
  const auto member = directory_.member_of(node);
  return member ? members_[*member].get() : nullptr;
}

std::optional<Run> Pool::take(std::uint32_t want) noexcept {
  return take_apart(want, {});
}

std::optional<Run> Pool::take_apart(std::uint32_t want, std::span<const NodeId> others, std::uint32_t least) noexcept {
  const auto from = [&](std::size_t i) -> std::optional<Run> {
    if (i == kNobody || !is_apart(i, others)) return std::nullopt;
    const auto run = members_[i]->take(want);
    if (!run || run->count >= least) return run;
    members_[i]->put_back(*run);
    return std::nullopt;
  };
  // The preferred node first even when it says no by now: what is left of it keeps the process's pages together.
  if (const auto run = from(placement_.preferred())) return run;
  for (std::uint32_t copy = 0; copy < config_.copies; ++copy) {
    if (const auto run = from(active_[copy].load(std::memory_order_relaxed))) return run;
  }
  if (const auto run = from(standby_.load(std::memory_order_relaxed))) return run;
  for (std::size_t i = 0; i < members_.size(); ++i) {
    if (const auto run = from(i)) return run;
  }
  return std::nullopt;
}

Errc Pool::apart(std::span<const NodeId> others) const noexcept {
  Errc found = Errc::disconnected;
  for (std::size_t i = 0; i < members_.size(); ++i) {
    if (!is_apart(i, others) || !members_[i]->usable()) continue;
    if (!members_[i]->refusing()) return Errc::ok;
    found = Errc::no_memory;
  }
  return found;
}

bool Pool::is_apart(std::size_t member, std::size_t other) const noexcept {
  const std::string& domain = config_.nodes[member].domain;
  const bool together = !domain.empty() && domain == config_.nodes[other].domain;
  return member != other && !together && !members_[member]->is_same_node(*members_[other]);
}

bool Pool::is_apart(std::size_t member, std::span<const NodeId> others) const noexcept {
  return std::all_of(others.begin(), others.end(), [&](NodeId node) {
    const auto other = directory_.member_of(node);
    return !other || is_apart(member, *other);
  });
}

std::size_t Pool::count_apart() const {
  std::vector<std::size_t> counted;
  for (std::size_t i = 0; i < members_.size(); ++i) {
    const auto apart = [&](std::size_t other) { return is_apart(i, other); };
    const bool up = members_[i]->state() == MemberState::up;
    if (up && std::all_of(counted.begin(), counted.end(), apart)) counted.push_back(i);
  }
  return counted.size();
}

std::optional<std::pair<Url, Url>> Pool::doubles() const {
  for (std::size_t i = 0; i < members_.size(); ++i) {
    for (std::size_t other = 0; other < i; ++other) {
      if (members_[i]->is_same_node(*members_[other])) return std::pair(config_.nodes[other], config_.nodes[i]);
    }
  }
  return std::nullopt;
}

void Pool::put_back(const Run& run) noexcept {
  if (Member* const member = find(run.node)) member->put_back(run);
}

void Pool::give_back(const Run& run) noexcept {
  if (Member* const member = find(run.node)) member->give_back(run);
}

std::uint32_t Pool::at_hand() const noexcept {
  std::uint32_t frames = 0;
  for (const auto& member : members_) frames += member->usable() ? member->at_hand() : 0;
  return frames;
}

void Pool::submit(NodeId node, Transfer& transfer) noexcept {
  if (Member* const member = find(node)) {
    member->submit(node, transfer);
    return;
  }
  transfer.begin();
  transfer.finish(Errc::invalid);
}

void Pool::poll(NodeId node) noexcept {
  if (Member* const member = find(node)) member->poll(node);
}

Errc Pool::wait(NodeId node, Transfer& transfer) noexcept {
  Member* const member = find(node);
  return member != nullptr ? member->wait(node, transfer) : Errc::invalid;
}

Errc Pool::wait_until_decided(NodeId node, const Deadline& deadline) noexcept {
  Member* const member = find(node);
  return member != nullptr ? member->wait_until_decided(node, deadline) : Errc::invalid;
}

Errc Pool::wait_for_frames(std::uint32_t count, const Deadline& deadline) noexcept {
  for (;;) {
    const auto seen = arrivals_.current();
    if (at_hand() >= count) return Errc::ok;
    if (arrivals_.wait(seen, deadline.when())) continue;
    if (at_hand() >= count) return Errc::ok;
    bool any_up = false;
    bool any_willing = false;
    for (const auto& member : members_) {
      any_up |= member->usable();
      any_willing |= member->usable() && !member->refusing();
    }
    if (!any_up) return Errc::disconnected;
    return any_willing ? Errc::timeout : Errc::no_memory;
  }
}

void Pool::announce() {
  arrivals_.advance();
  const std::lock_guard lock(watch_mutex_);
  if (watcher_) watcher_();
}

void Pool::watch(std::function<void()> changed) {
  const std::lock_guard lock(watch_mutex_);
  watcher_ = std::move(changed);
}

LinkGate::Pass Pool::enter(NodeId node) noexcept {
  Member* const member = find(node);
  return member != nullptr ? member->enter(node) : LinkGate::Pass();
}

void Pool::renew_link(NodeId node, std::uint64_t link) noexcept {
  Member* const member = find(node);
  if (member == nullptr) return;
  if (const auto pass = member->enter(node); pass && pass->number() == link) pass->sever(Errc::disconnected);
  member->ring();
}

std::vector<MemberStatus> Pool::status() const {
  std::vector<MemberStatus> status;
  status.reserve(members_.size());
  for (const auto& member : members_) status.push_back(member->status());
  return status;
}

}  // namespace comex
