#include "run/outpost/outpost_node.h"

#include <sched.h>
#include <sys/resource.h>

#include <ctime>
#include <new>

#include "run/disk_io.h"
#include "run/own_descriptors.h"

namespace comex {
namespace {

constexpr long kLookAgainNs = 50'000;

// Whether this process may write files that long. Beyond that a write brings a signal that would end the program.
bool may_write_to(const Segment& segment) noexcept {
  rlimit most{};
  return getrlimit(RLIMIT_FSIZE, &most) == 0 && most.rlim_cur >= (std::uint64_t{segment.first.value} + segment.count)
                                                                     << kPageShift;
}

bool send_dock(int lane, int file) noexcept {
  char one = 0;
  const std::array parts{iovec{&one, sizeof one}};
  return send_packet(lane, parts, std::array{file}) == Errc::ok;
}

}  // namespace

OutpostNode::OutpostNode(const keeper_wire::Node& told, const OutpostLinkConfig& config, std::atomic<bool>* mapped)
    : told_(told), config_(config), mapped_(mapped) {}

OutpostNode::~OutpostNode() {
  close(Errc::fenced);
  drop_lanes();
  own_descriptors.drop(file_.get());
}

Errc OutpostNode::state() noexcept {
  Turnstile::Stripe& stripe = inside_.enter();
  Errc state = state_.load(std::memory_order_seq_cst);
  if (state == Errc::ok && window_.fenced()) state = Errc::fenced;
  if (state == Errc::ok && lanes_ && lanes_->broken() != Errc::ok) state = Errc::disconnected;
  Turnstile::leave(stripe);
  return state;
}

void OutpostNode::count(const Transfer& transfer) noexcept {
  if (traffic_ == nullptr) return;
  std::uint64_t pages = 0;
  for (const Segment& segment : transfer.segments) pages += segment.count;
  const bool reads = transfer.direction == Direction::read;
  PagerStats::add(reads ? traffic_->reads : traffic_->writes);
  PagerStats::add(reads ? traffic_->pages_read : traffic_->pages_written, pages);
}

void OutpostNode::submit(Transfer& transfer) noexcept {
  count(transfer);
  Turnstile::Stripe& stripe = inside_.enter();
  const Errc state = state_.load(std::memory_order_seq_cst);
  if (state != Errc::ok) {
    transfer.begin();
    transfer.finish(state);
  } else if (shm()) {
    copy(transfer);
  } else if (disk()) {
    use_disk(transfer);
  } else {
    lanes_->submit(transfer, static_cast<std::uint32_t>(stack_number()));
  }
  Turnstile::leave(stripe);
}

void OutpostNode::copy(Transfer& transfer) noexcept {
  transfer.begin();
  Errc result = window_.fenced() ? Errc::fenced : transfer.check();
  if (result == Errc::ok) result = window_.copy(transfer);
  if (result == Errc::ok) result = state_.load(std::memory_order_acquire);
  transfer.finish(result);
}

// Here and now: a disk that the program has to wait for is what comes after everything else.
void OutpostNode::use_disk(Transfer& transfer) noexcept {
  transfer.begin();
  Errc result = transfer.check();
  const bool writes = transfer.direction == Direction::write;
  for (const Segment& segment : transfer.segments) {
    if (result == Errc::ok && writes && !may_write_to(segment)) result = Errc::io;
    if (result == Errc::ok) result = move_on_disk(file_.get(), transfer.direction, segment);
  }
  if (writes && result == Errc::io) refused_.store(true, std::memory_order_release);
  transfer.finish(result);
}

void OutpostNode::poll() noexcept {
  Turnstile::Stripe& stripe = inside_.enter();
  if (state_.load(std::memory_order_seq_cst) == Errc::ok && lanes_) lanes_->progress();
  Turnstile::leave(stripe);
}

Errc OutpostNode::wait(Transfer& transfer) noexcept {
  while (!transfer.done()) {
    Turnstile::Stripe& stripe = inside_.enter();
    const bool open = state_.load(std::memory_order_seq_cst) == Errc::ok;
    // After entering: if the lanes are others than those submitted to, the transfer is done.
    if (open && lanes_ && !transfer.done()) (void)lanes_->wait(transfer);
    Turnstile::leave(stripe);
    // The node is being closed, which completes the transfer in a moment.
    if (!transfer.done()) sched_yield();
  }
  return transfer.result();
}

// --- the tending thread ---

Errc OutpostNode::use_window(int fence) noexcept {
  const Errc opened = window_.open(fence, told_.frames, told_.slab_order, mapped_);
  if (opened == Errc::ok) state_.store(Errc::ok, std::memory_order_seq_cst);
  return opened;
}

Errc OutpostNode::map(std::uint32_t slab, int memory) noexcept {
  if (!shm() || slab >= ShmWindow::slabs_of(told_.frames, told_.slab_order)) return Errc::invalid;
  return window_.map(slab, memory);
}

Errc OutpostNode::use_lanes(ReceivedFds& fds, Dock& dock) noexcept {
  close(Errc::disconnected);
  const bool desks = told_.medium == keeper_wire::Medium::relayed;
  const std::size_t count = desks ? fds.size() / 2 : fds.size();
  if (shm() || count == 0 || count > keeper_wire::kMaxLanes) return Errc::invalid;
  drop_lanes();
  lanes_.emplace(config_.transfer_timeout);
  for (std::size_t i = 0; i < count && !desks; ++i) {
    streams_[i].emplace(own_descriptors.adopt(fds.take(i)));
    lane_[i].emplace(*streams_[i], lanes_->broken_word(), config_.max_spin);
    lanes_->add(*lane_[i]);
  }
  for (std::size_t i = 0; i < count && desks; ++i) {
    LaneDesk* const desk = DeskLane::map(fds.take(count + i).get());
    if (desk == nullptr) return Errc::io;
    Fd socket = own_descriptors.adopt(fds.take(i));
    const bool docked = dock.file() >= 0 && send_dock(socket.get(), dock.file());
    desks_[i].emplace(std::move(socket), *desk, docked ? &dock : nullptr, lanes_->broken_word(), config_.max_spin);
    lanes_->add(*desks_[i]);
  }
  Errc expected = Errc::disconnected;  // not if it is lost
  state_.compare_exchange_strong(expected, Errc::ok, std::memory_order_seq_cst);
  return Errc::ok;
}

Errc OutpostNode::use_file(Fd file) noexcept {
  if (!disk() || !file) return Errc::invalid;
  file_ = own_descriptors.adopt(std::move(file));
  state_.store(Errc::ok, std::memory_order_seq_cst);
  return Errc::ok;
}

void OutpostNode::reopen() noexcept {
  Errc expected = Errc::disconnected;
  state_.compare_exchange_strong(expected, Errc::ok, std::memory_order_seq_cst);
}

void OutpostNode::close(Errc why) noexcept {
  if (state_.load(std::memory_order_relaxed) != Errc::fenced) state_.store(why, std::memory_order_seq_cst);
  if (lanes_) lanes_->sever(why);
  while (inside_.anybody()) {
    if (lanes_) lanes_->progress();
    const timespec nap{0, kLookAgainNs};
    nanosleep(&nap, nullptr);
  }
  if (lanes_) lanes_->progress();
}

Errc OutpostNode::broke() const noexcept {
  if (state_.load(std::memory_order_acquire) != Errc::ok) return Errc::ok;
  if (window_.fenced()) return Errc::fenced;
  return lanes_ && lanes_->broken() != Errc::ok ? Errc::disconnected : Errc::ok;
}

void OutpostNode::drop_lanes() noexcept {
  lanes_.reset();
  for (auto& lane : lane_) lane.reset();
  for (auto& lane : desks_) {
    if (lane) own_descriptors.drop(lane->fd());
    lane.reset();
  }
  for (auto& stream : streams_) {
    if (stream) own_descriptors.drop(stream->fd());
    stream.reset();
  }
}

void OutpostNode::after_fork() noexcept {
  // Threads of the parent may have been inside, and may have held the locks of its lanes.
  new (&inside_) Turnstile;
  must_report = false;
  if (shm() || disk()) return;
  drop_lanes();  // closes descriptors, and touches neither locks nor the connections
  Errc expected = Errc::ok;
  state_.compare_exchange_strong(expected, Errc::disconnected, std::memory_order_seq_cst);
}

}  // namespace comex
