// A memory node in an array, and links to it, for the tests of this layer. It keeps to the contract of fabric/link.h
// and does on demand what real nodes do at the worst moment: say no, die, come back empty, be slow, hold things up.
//
// Thread safety: everything from any thread. A FakeNode must outlive its links.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "fabric/connect.h"
#include "fabric/link.h"

namespace comex::testing_support {

// Waits for what other threads bring about. The cap is only ever reached by a broken test.
template <typename Condition>
[[nodiscard]] bool eventually(Condition&& condition, Clock::duration cap = std::chrono::seconds(60)) {
  const Deadline deadline(cap);
  while (!condition()) {
    if (deadline.passed()) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  return true;
}

class FakeNode {
 public:
  static constexpr unsigned kSlabOrder = 9;

  explicit FakeNode(std::uint32_t frames = 8192, Millis lease = Millis(10'000))
      : frames_(frames),
        lease_(lease),
        memory_(static_cast<std::byte*>(std::calloc(frames, kPageSize)), &std::free),
        owner_(frames) {}

  Expected<std::unique_ptr<Link>> connect(const Url& url, const LinkOptions& options);

  // --- scripts ---
  void refuse(bool on) { set(refuse_, on); }                // grants get the plain "no"
  void slow_calls(Millis each) { set(call_delay_, each); }  // control calls take this long
  void hold_transfers(bool on);                             // transfers stay under way until this is off again
  void fail_transfers(Errc with) { set(transfer_result_, with); }
  void extents_of(std::uint32_t frames) { set(extent_frames_, frames); }  // what grants consist of
  void ask_to_leave(std::vector<std::uint32_t> slabs) { set(asked_, std::move(slabs)); }
  void lose_next_reply(wire::Type to) { set(lose_reply_to_, std::optional(to)); }  // served, but the link breaks
  void die() { cut(false, false); }                                                // every link breaks, nobody gets in
  void revive() { set(alive_, true); }     // with everybody's frames still there
  void drop_links() { cut(true, false); }  // every link breaks; resuming works
  void restart() { cut(true, true); }      // every link breaks; all frames are gone
  void forget_clients();                   // fences everybody; the links still stand

  // --- what happened ---
  [[nodiscard]] int calls(wire::Type type) const {
    return locked([&] { return count(type); });
  }
  [[nodiscard]] int connects() const {
    return locked([&] { return connects_; });
  }
  [[nodiscard]] int begun() const {
    return locked([&] { return begun_; });
  }
  [[nodiscard]] int writes() const {
    return locked([&] { return writes_; });
  }
  [[nodiscard]] std::size_t pending() const {
    return locked([&] { return pending_.size(); });
  }
  [[nodiscard]] std::size_t links() const {
    return locked([&] { return links_.size(); });
  }
  [[nodiscard]] std::uint32_t held() const {
    return locked([&] {
      std::uint32_t n = 0;
      for (const auto& owner : owner_) n += owner != 0;
      return n;
    });
  }
  [[nodiscard]] std::vector<std::byte> frame(FrameNo frame) const {
    return locked([&] { return std::vector<std::byte>(at(frame), at(frame) + kPageSize); });
  }
  [[nodiscard]] unsigned last_min_order() const {
    return locked([&] { return last_min_order_; });
  }
  [[nodiscard]] std::vector<Extent> reached() const {
    return locked([&] { return reached_; });
  }

 private:
  friend class FakeLink;

  template <typename F>
  std::invoke_result_t<F> locked(F&& f) const {
    const std::lock_guard lock(mutex_);
    return f();
  }
  template <typename T>
  void set(T& field, T value) {
    const std::lock_guard lock(mutex_);
    field = value;
    changed_.notify_all();
  }
  [[nodiscard]] int count(wire::Type type) const {
    const auto found = calls_.find(type);
    return found == calls_.end() ? 0 : found->second;
  }
  [[nodiscard]] std::byte* at(FrameNo frame) const { return memory_.get() + std::size_t{frame.value} * kPageSize; }
  static std::uint64_t new_boot_id() {
    static std::atomic<std::uint64_t> last{0};
    return ++last;
  }
  void cut(bool alive, bool empty);
  // All below REQUIRE mutex_.
  void forget_locked();
  Errc perform(const Transfer& transfer, std::uint64_t client);
  Expected<wire::Bytes> serve(std::uint64_t client, wire::Type type, wire::ByteView body);
  Expected<wire::Bytes> grant(std::uint64_t client, const wire::Grant& request);
  Expected<wire::Bytes> take_back(std::uint64_t client, const std::vector<Extent>& extents);
  [[nodiscard]] wire::NodeLoad load() const;
  void release(std::uint64_t client);

  const std::uint32_t frames_;
  const Millis lease_;
  mutable std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::unique_ptr<std::byte, decltype(&std::free)> memory_;
  std::vector<std::uint64_t> owner_;  // of each frame; 0: free
  std::set<std::uint64_t> clients_;
  std::set<class FakeLink*> links_;
  std::vector<std::pair<Transfer*, class FakeLink*>> pending_;
  std::map<wire::Type, int> calls_;
  std::vector<Extent> reached_;
  std::uint64_t next_client_ = 1;
  std::uint64_t boot_id_ = new_boot_id();
  bool alive_ = true;
  bool refuse_ = false;
  bool hold_ = false;
  Millis call_delay_{0};
  Errc transfer_result_ = Errc::ok;
  std::uint32_t extent_frames_ = 128;
  std::optional<wire::Type> lose_reply_to_;
  unsigned last_min_order_ = 0;
  std::vector<std::uint32_t> asked_;
  int connects_ = 0;
  int begun_ = 0;
  int writes_ = 0;
};

class FakeLink final : public Link {
 public:
  FakeLink(FakeNode& node, std::uint64_t client, const LinkOptions& options)
      : fake_(node), control_timeout_(options.control_timeout), transfer_timeout_(options.transfer_timeout) {
    session_.client = ClientId{client};
    session_.boot_id = node.boot_id_;
    node_ = NodeInfo{NodeId{1}, node.frames_, FakeNode::kSlabOrder, node.lease_};
    node.links_.insert(this);
  }
  ~FakeLink() override {
    sever(Errc::disconnected);
    const std::lock_guard lock(fake_.mutex_);
    fake_.links_.erase(this);
  }

  void submit(Transfer& transfer) noexcept override {
    const std::lock_guard lock(fake_.mutex_);
    transfer.begin();
    if (broken_ != Errc::ok) return transfer.finish(broken_);
    if (fake_.hold_) return fake_.pending_.emplace_back(&transfer, this), void();
    transfer.finish(fake_.perform(transfer, session_.client.value));
  }
  void progress() noexcept override {}
  Errc wait(Transfer& transfer) noexcept override {
    std::unique_lock lock(fake_.mutex_);
    if (!fake_.changed_.wait_for(lock, transfer_timeout_, [&] { return transfer.done(); })) {
      sever_locked(Errc::timeout);
    }
    return transfer.result();
  }
  [[nodiscard]] Errc broken() const noexcept override { return broken_; }
  void sever(Errc why) noexcept override {
    const std::lock_guard lock(fake_.mutex_);
    sever_locked(why);
  }
  // As over shared memory: a slab is reached only by who holds frames of it.
  Expected<void> reach(std::span<const Extent> extents) override {
    const std::lock_guard lock(fake_.mutex_);
    for (const Extent& extent : extents) {
      const std::uint32_t first = extent.first.value >> FakeNode::kSlabOrder << FakeNode::kSlabOrder;
      const std::uint32_t end = std::min(fake_.frames_, first + (1U << FakeNode::kSlabOrder));
      const auto held = std::count(fake_.owner_.begin() + first, fake_.owner_.begin() + end, session_.client.value);
      if (held < extent.count) return Error{Errc::denied, "not yours"};
    }
    fake_.reached_.assign(extents.begin(), extents.end());
    return {};
  }
  Expected<std::vector<std::byte>> call(wire::Type type, std::span<const std::byte> body) override {
    std::unique_lock lock(fake_.mutex_);
    ++fake_.calls_[type];
    const auto gone = [&] { return broken_ != Errc::ok; };
    if (fake_.call_delay_ > control_timeout_) {
      fake_.changed_.wait_for(lock, control_timeout_, gone);
      sever_locked(Errc::timeout);
    } else if (fake_.call_delay_ > Millis(0)) {
      fake_.changed_.wait_for(lock, fake_.call_delay_, [&] { return gone() || fake_.call_delay_ == Millis(0); });
    }
    if (gone()) return Error{broken_, std::string(to_string(broken_))};
    auto reply = fake_.serve(session_.client.value, type, body);
    if (fake_.lose_reply_to_ == type) {
      fake_.lose_reply_to_.reset();
      sever_locked(Errc::disconnected);
      return Error{Errc::disconnected, "the reply was lost"};
    }
    return reply;
  }

 private:
  friend class FakeNode;
  void forget(std::span<const Extent>) noexcept override {}
  void sever_locked(Errc why) {
    if (broken_ == Errc::ok) broken_ = why;
    std::erase_if(fake_.pending_, [&](const auto& entry) {
      if (entry.second != this) return false;
      entry.first->finish(broken_);
      return true;
    });
    fake_.changed_.notify_all();
  }

  FakeNode& fake_;
  const Millis control_timeout_;
  const Millis transfer_timeout_;
  std::atomic<Errc> broken_{Errc::ok};
};

inline Expected<std::unique_ptr<Link>> FakeNode::connect(const Url& url, const LinkOptions& options) {
  const std::lock_guard lock(mutex_);
  ++connects_;
  if (!alive_) return Error{Errc::disconnected, url.text() + ": connection refused"};
  std::uint64_t client = 0;
  if (options.resume) {
    client = options.resume->client.value;
    if (options.resume->boot_id != boot_id_ || !clients_.contains(client)) {
      return Error{Errc::fenced, url.text() + ": the session is over"};
    }
  } else {
    client = next_client_++;
    clients_.insert(client);
    ++begun_;
  }
  return std::unique_ptr<Link>(std::make_unique<FakeLink>(*this, client, options));
}

inline void FakeNode::hold_transfers(bool on) {
  const std::lock_guard lock(mutex_);
  hold_ = on;
  if (on) return;
  for (const auto& [transfer, link] : pending_) transfer->finish(perform(*transfer, link->session().client.value));
  pending_.clear();
  changed_.notify_all();
}

inline void FakeNode::cut(bool alive, bool empty) {
  const std::lock_guard lock(mutex_);
  alive_ = alive;
  if (empty) {
    boot_id_ = new_boot_id();
    forget_locked();
  }
  for (FakeLink* link : links_) link->sever_locked(Errc::disconnected);
}

inline void FakeNode::forget_clients() {
  const std::lock_guard lock(mutex_);
  forget_locked();
}

inline void FakeNode::forget_locked() {
  clients_.clear();
  std::fill(owner_.begin(), owner_.end(), 0);
}

inline Errc FakeNode::perform(const Transfer& transfer, std::uint64_t client) {
  if (transfer.direction == Direction::write) ++writes_;
  if (transfer_result_ != Errc::ok) return transfer_result_;
  if (const Errc unfit = transfer.check(); unfit != Errc::ok) return unfit;
  if (!clients_.contains(client)) return Errc::fenced;
  for (const Segment& segment : transfer.segments) {
    for (std::uint32_t i = 0; i < segment.count; ++i) {
      if (segment.first.value + i >= frames_ || owner_[segment.first.value + i] != client) return Errc::denied;
    }
    const std::size_t bytes = std::size_t{segment.count} * kPageSize;
    if (transfer.direction == Direction::read) {
      std::memcpy(segment.local, at(segment.first), bytes);
    } else {
      std::memcpy(at(segment.first), segment.local, bytes);
    }
  }
  return Errc::ok;
}

inline wire::NodeLoad FakeNode::load() const {
  wire::NodeLoad load;
  for (const auto owner : owner_) load.free_frames += owner == 0;
  load.largest_free = refuse_ ? 0 : load.free_frames;
  load.clients = static_cast<std::uint32_t>(clients_.size());
  load.service_ns = 1000;
  load.asked = asked_.empty() ? 0 : 1;
  return load;
}

inline void FakeNode::release(std::uint64_t client) {
  for (auto& owner : owner_) {
    if (owner == client) owner = 0;
  }
  clients_.erase(client);
}

inline Expected<wire::Bytes> FakeNode::serve(std::uint64_t client, wire::Type type, wire::ByteView body) {
  if (!clients_.contains(client)) return Error{Errc::fenced, "fenced"};
  switch (type) {
    case wire::Type::grant: return grant(client, wire::decode<wire::Grant>(body).value());
    case wire::Type::give_back: return take_back(client, wire::decode<wire::GiveBack>(body).value().extents);
    case wire::Type::beat: return wire::encode(load());
    case wire::Type::asked: return wire::encode(wire::AskedReply{asked_});
    case wire::Type::bye: release(client); return wire::Bytes{};
    default: return Error{Errc::unsupported, "not in this fake"};
  }
}

inline Expected<wire::Bytes> FakeNode::grant(std::uint64_t client, const wire::Grant& request) {
  last_min_order_ = request.min_order;
  const std::uint32_t least = 1U << request.min_order;
  wire::GrantReply reply;
  std::uint32_t got = 0;
  const bool scraps_only = refuse_ && request.min_order >= kUsualMinOrder;
  for (std::uint32_t first = 0; first < frames_ && got < request.frames && !scraps_only;) {
    std::uint32_t count = 0;  // free frames from here, at most one extent, within the slab
    const std::uint32_t slab_end = (first | ((1U << kSlabOrder) - 1)) + 1;
    while (first + count < std::min(frames_, slab_end) && count < extent_frames_ && owner_[first + count] == 0) ++count;
    if (count >= least) {
      std::fill_n(owner_.begin() + first, count, client);
      reply.extents.push_back(Extent{FrameNo{first}, count});
      got += count;
    }
    first += std::max(1U, count);
  }
  if (got == 0) return Error{Errc::no_memory, "no"};
  reply.load = load();
  return wire::encode(reply);
}

inline Expected<wire::Bytes> FakeNode::take_back(std::uint64_t client, const std::vector<Extent>& extents) {
  for (const Extent& extent : extents) {
    for (std::uint32_t i = 0; i < extent.count; ++i) {
      if (extent.end() > frames_ || owner_[extent.first.value + i] != client) return Error{Errc::denied, "not yours"};
    }
  }
  for (const Extent& extent : extents) std::fill_n(owner_.begin() + extent.first.value, extent.count, 0);
  return wire::Bytes{};
}

// Several fake nodes, addressed as tcp://node-0:7171 and so on.
class FakeCluster {
 public:
  explicit FakeCluster(std::size_t nodes, std::uint32_t frames = 8192, Millis lease = Millis(10'000)) {
    for (std::size_t i = 0; i < nodes; ++i) nodes_.push_back(std::make_unique<FakeNode>(frames, lease));
  }
  FakeNode& operator[](std::size_t i) { return *nodes_[i]; }
  [[nodiscard]] std::size_t size() const { return nodes_.size(); }
  [[nodiscard]] std::vector<Url> urls() const {
    std::vector<Url> urls(nodes_.size());
    for (std::size_t i = 0; i < urls.size(); ++i) {
      urls[i].host = "node-" + std::to_string(i);
      urls[i].port = kDefaultPort;
    }
    return urls;
  }
  [[nodiscard]] std::function<Expected<std::unique_ptr<Link>>(const Url&, const LinkOptions&)> connector() {
    return [this](const Url& url, const LinkOptions& options) {
      return nodes_[std::stoul(url.host.substr(5))]->connect(url, options);
    };
  }

 private:
  std::vector<std::unique_ptr<FakeNode>> nodes_;
};

}  // namespace comex::testing_support
