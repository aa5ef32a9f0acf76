#include "node/puller.h"

#include <algorithm>
#include <cstring>
#include <shared_mutex>
#include <utility>

#include "fabric/address.h"
#include "fabric/channel.h"
#include "fabric/lane_set.h"
#include "fabric/tcp_lane.h"
#include "wire/auth.h"

namespace comex {
namespace {

constexpr std::size_t kBufferBytes = wire::kMaxTransferPages * kPageSize;
constexpr std::uint32_t kPagesAtOnce = 64;  // that are copied while the ledger waits

}  // namespace

Puller::Puller(Arena& arena, std::atomic<std::uint64_t>& pages, const PullerConfig& config)
    : arena_(arena), pages_(pages), config_(config) {
  for (unsigned i = 0; i < config.threads; ++i) threads_.emplace_back([this] { run(); });
}

Puller::~Puller() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  for (auto& thread : threads_) thread.join();
}

Expected<void> Puller::begin(std::shared_ptr<Client> client, std::uint32_t coming, wire::Pull request) {
  if (client->pulling && client->pulling->state.load() == wire::PullState::under_way) {
    return Error{Errc::busy, "a client has one pull at a time"};
  }
  const std::lock_guard lock(mutex_);
  if (jobs_.size() >= config_.waiting || failed_too_often()) return Error{Errc::busy, "too many pulls"};
  client->pulling = std::make_shared<Pulling>(coming);
  auto pulling = client->pulling;
  jobs_.push_back(Job{std::move(client), std::move(pulling), std::move(request), Clock::now() + config_.patience});
  changed_.notify_one();
  return {};
}

void Puller::run() {
  const AlignedBytes buffer(kBufferBytes);
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
    if (stopping_) return;
    const Job job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    const bool landed = pull(job, buffer);
    job.pulling->state.store(landed ? wire::PullState::landed : wire::PullState::failed);
    lock.lock();
  }
}

bool Puller::pull(const Job& job, const AlignedBytes& buffer) {
  if (Clock::now() > job.until) return false;
  if (!fetch(job, buffer)) {
    note_failure();
    return false;
  }
  return land(job, buffer);
}

// The frames of the ticket, to the buffer. Why it fails nobody is told: the client has chosen the address.
bool Puller::fetch(const Job& job, const AlignedBytes& buffer) const {
  Url url;
  url.host = host_of(job.request.from);
  url.port = job.request.from.port;
  LinkOptions options;
  options.connect_timeout = config_.connect_timeout;
  options.control_timeout = config_.transfer_timeout;
  Session ticket;
  ticket.client = ClientId{job.request.ticket.number};
  ticket.key = wire::cover_key(job.client->key, job.request.ticket, job.request.covered_key);
  ticket.boot_id = job.request.boot_id;
  auto opened = open_channel(url, options, wire::Purpose::pull, &ticket);
  if (!opened) return false;

  LaneSet lanes(config_.transfer_timeout);
  TcpLane lane(opened->channel->release(), lanes.broken_word(), Nanos(0));
  lanes.add(lane);
  std::vector<Segment> segments;
  std::byte* at = buffer.data();
  for (const Extent& extent : job.request.source) {
    segments.push_back(Segment{extent.first, extent.count, at});
    at += extent.bytes();
  }
  Transfer transfer(Direction::read, segments, Priority::bulk);
  lanes.submit(transfer, 0);
  return lanes.wait(transfer) == Errc::ok;
}

bool Puller::land(const Job& job, const AlignedBytes& buffer) const {
  const std::byte* from = buffer.data();
  for (const Extent& extent : job.request.target) {
    for (std::uint32_t at = 0; at < extent.count; at += kPagesAtOnce) {
      const Extent piece{extent.first + at, std::min(kPagesAtOnce, extent.count - at)};
      const std::shared_lock access(job.client->access);
      if (job.client->coming.load() != job.pulling->coming || !job.client->holdings.holds(piece)) return false;
      std::memcpy(arena_.frame_address(piece.first), from, piece.bytes());
      from += piece.bytes();
      pages_.fetch_add(piece.count, std::memory_order_relaxed);
    }
  }
  return true;
}

void Puller::note_failure() {
  const std::lock_guard lock(mutex_);
  if (Clock::now() - failures_since_ > Millis(1'000)) {
    failures_since_ = Clock::now();
    failures_ = 0;
  }
  ++failures_;
}

bool Puller::failed_too_often() const {
  return failures_ >= config_.failures_a_second && Clock::now() - failures_since_ <= Millis(1'000);
}

}  // namespace comex
