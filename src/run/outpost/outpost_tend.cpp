// What an outpost and its keeper say to each other.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>
#include <new>

#include "base/own_place.h"
#include "base/wait_ready.h"
#include "run/lifeline.h"
#include "run/outpost/outpost.h"
#include "run/own_descriptors.h"

namespace comex {

namespace kw = keeper_wire;

Errc Outpost::greet(const Deadline& deadline) noexcept {
  const std::lock_guard lock(tend_mutex_);
  const kw::Hello hello{kw::kVersion, static_cast<std::uint32_t>(::getpid())};
  if (say(kw::Type::hello, std::as_bytes(std::span(&hello, 1))) != Errc::ok) return Errc::disconnected;
  while (!welcomed_ && !keeper_gone()) {
    if (!wait_ready(socket_.get(), POLLIN, deadline)) return Errc::timeout;
    receive();
  }
  return welcomed_ ? Errc::ok : Errc::disconnected;
}

void Outpost::tend_for(std::uint32_t least) noexcept {
  if (config_.apart != nullptr && config_.apart()) return;
  if (keeper_gone() || !tend_mutex_.try_lock()) return;
  const std::lock_guard lock(tend_mutex_, std::adopt_lock);
  receive();
  if (keeper_gone()) return;
  // The answer to a before_fork() that has given up: nobody will be this heir.
  heir_socket_.reset();
  heir_lifeline_.reset();
  mind_stock();
  answer_seal();
  (void)send_all_returns();
  ask(least);
}

Errc Outpost::say(kw::Type type, std::span<const std::byte> body, std::span<const std::byte> tail) noexcept {
  kw::Head head{type};
  const std::array parts{iovec{&head, sizeof head}, iovec{const_cast<std::byte*>(body.data()), body.size()},
                         iovec{const_cast<std::byte*>(tail.data()), tail.size()}};
  const Errc sent = send_packet(socket_.get(), parts);
  if (sent != Errc::ok && sent != Errc::busy) gone();
  return sent;
}

// Whatever it said before it went has been received.
void Outpost::gone() noexcept {
  gone_.store(true, std::memory_order_release);
  for_each_node([](OutpostNode& node) { node.close(Errc::fenced); });
}

// --- in ---

void Outpost::receive() noexcept {
  const std::lock_guard received(own_descriptors.mutex);
  ReceivedFds fds;
  const bool heir_due = heirs_due_ > 0;
  // Not beyond the answer about an heir: what is granted after it the heir does not hold.
  while (!keeper_gone() && (!heir_due || heirs_due_ > 0)) {
    const Received got = receive_packet(socket_.get(), {buffer_, kw::kMaxMessage}, fds);
    if (got.error == Errc::ok && got.bytes == 0) return;
    // A keeper that cannot be understood is no keeper.
    if (got.error != Errc::ok || !hear({buffer_, got.bytes}, fds)) gone();
  }
}

bool Outpost::hear(std::span<const std::byte> message, ReceivedFds& fds) noexcept {
  kw::Head head;
  if (message.size() < sizeof head) return false;
  std::memcpy(&head, message.data(), sizeof head);
  if (head.type == kw::Type::welcome) return hear_welcome(message, fds);
  if (head.type == kw::Type::node) return hear_node(message, fds);
  if (head.type == kw::Type::seal) {
    kw::Seal seal;
    if (!kw::read_body(message, seal)) return false;
    seal_heard_ = seal.round;
    return true;
  }
  if (head.type == kw::Type::place) {
    kw::Since since;
    if (!kw::read_body(message, since)) return false;
    heard_.store(since.since, std::memory_order_release);
    return true;
  }
  if (head.type == kw::Type::tidy) {
    kw::Tidy tidy;
    if (!kw::read_body(message, tidy)) return false;
    tidy_.store(tidy.wanted != 0, std::memory_order_relaxed);
    return true;
  }
  if (head.type == kw::Type::grant) return hear_grant(message);
  if (head.type == kw::Type::refused) {
    kw::Refused refused;
    if (!kw::read_body(message, refused)) return false;
    why_refused_.store(static_cast<Errc>(refused.why), std::memory_order_relaxed);
    refused_.store(true, std::memory_order_release);
    return true;
  }
  if (head.type == kw::Type::closing) {
    kw::Closing closing;
    if (kw::read_body(message, closing)) farewell_ = closing.reason;
    return false;
  }
  if (head.type == kw::Type::heir) {
    heirs_due_ -= heirs_due_ > 0 ? 1 : 0;
    heir_socket_ = fds.take(0);
    heir_lifeline_ = fds.take(1);
    return true;
  }
  return hear_of_node(head.type, message, fds);
}

bool Outpost::hear_welcome(std::span<const std::byte> message, ReceivedFds& fds) noexcept {
  kw::Welcome welcome;
  if (!kw::read_body(message, welcome) || welcome.copies == 0 || welcome.copies > kMostCopies) return false;
  if (!welcome.code.valid()) return false;
  copies_ = welcome.copies;
  code_ = welcome.code;
  relayed_ = welcome.relayed;
  if (code_.coded() && !workrooms_.made()) {
    std::byte* const memory = config_.own(config_.context, Workrooms::bytes(code_));
    if (memory == nullptr) return false;
    workrooms_.make(memory, code_);
  }
  if (fds.size() >= 2) {
    lifeline_ = grasp_lifeline(fds.take(0).get());
    void* const map = mmap(OwnPlace::take(ChunkMap::kBytes), ChunkMap::kBytes, PROT_READ, MAP_SHARED | MAP_NORESERVE,
                           fds.take(1).get(), 0);
    if (map != MAP_FAILED) map_ = static_cast<const ChunkEntry*>(map);
  }
  if (fds.size() == 3) {
    void* const map = mmap(OwnPlace::take(kBackupMapBytes), kBackupMapBytes, PROT_READ | PROT_WRITE,
                           MAP_SHARED | MAP_NORESERVE, fds.take(2).get(), 0);
    if (map == MAP_FAILED) return false;
    backup_ = static_cast<BackupEntry*>(map);
  }
  welcomed_ = lifeline_ != nullptr && map_ != nullptr;
  return welcomed_;
}

// What begins from now on sees the map as it was when the keeper spoke, or newer; what began before is waited for, here
// and in the next calls. Some of it may have failed and be under way all the same, in a lane that broke: the keeper
// hears of that first.
void Outpost::answer_seal() noexcept {
  if (seal_pending_ == seal_answered_ && seal_heard_ > seal_answered_) {
    drop_what_cannot_be_written();
    seal_pending_ = seal_heard_;
    ages_.begin_next();
  }
  if (seal_pending_ == seal_answered_ || !ages_.is_before_over()) return;
  look_at_lanes();
  if (!report_lanes()) return;
  const kw::Seal seal{seal_pending_};
  if (say(kw::Type::sealed, std::as_bytes(std::span(&seal, 1))) == Errc::ok) seal_answered_ = seal_pending_;
}

bool Outpost::hear_node(std::span<const std::byte> message, ReceivedFds& fds) noexcept {
  kw::Node told;
  if (!kw::read_body(message, told) || told.id > kw::kDisk || told.frames == 0 || told.slab_order > 30) {
    return false;
  }
  const bool shm = told.medium == kw::Medium::shm;
  if (OutpostNode* const old = find(told.id)) {
    give_up(*old, Errc::fenced);  // nobody holds anything of it: its memory is left where it is, for those who look at
                                  // it just now
  }
  const std::size_t slabs = shm ? ShmWindow::slabs_of(told.frames, told.slab_order) : 0;
  std::byte* const memory = config_.own(config_.context, sizeof(OutpostNode) + slabs * sizeof(std::atomic<bool>));
  if (memory == nullptr) return false;
  auto* const mapped = reinterpret_cast<std::atomic<bool>*>(memory + sizeof(OutpostNode));
  OutpostLinkConfig link = config_.link;
  const bool elsewhere = copies_ > 1 || code_.coded() || backup_ != nullptr;
  if (elsewhere) link.transfer_timeout = std::min(link.transfer_timeout, config_.failover);
  auto* const node = new (memory) OutpostNode(told, link, mapped);
  if (shm && (fds.size() != 1 || node->use_window(fds.take(0).get()) != Errc::ok)) return false;
  if (node->disk() && (fds.size() != 1 || node->use_file(fds.take(0)) != Errc::ok)) return false;
  node->count_in(record_);
  nodes_[told.id.value].store(node, std::memory_order_release);
  if (!node->disk()) ids_ = std::max(ids_, static_cast<std::uint16_t>(told.id.value + 1));
  return true;
}

bool Outpost::hear_of_node(kw::Type type, std::span<const std::byte> message, ReceivedFds& fds) noexcept {
  kw::Slab slab;
  kw::NodeRef about;
  if (type == kw::Type::slab) {
    if (!kw::read_body(message, slab) || fds.size() != 1) return false;
    OutpostNode* const node = find(slab.node);
    return node != nullptr && node->map(slab.index, fds.take(0).get()) == Errc::ok;
  }
  OutpostNode* const node = kw::read_body(message, about) ? find(about.node) : nullptr;
  if (node == nullptr) return false;
  switch (type) {
    case kw::Type::back:
      node->must_report = false;
      if (fds.size() > 0) return node->use_lanes(fds, dock_) == Errc::ok;
      node->reopen();
      return true;
    case kw::Type::away: give_up(*node, Errc::disconnected); return true;
    case kw::Type::lost:
      give_up(*node, Errc::fenced);
      if (config_.on_lost != nullptr) config_.on_lost(config_.context, about.node, node->told().name.view());
      return true;
    default: return false;
  }
}

// It cannot be used now, or never again: frames with a copy there are not for this process to have at hand.
void Outpost::give_up(OutpostNode& node, Errc why) noexcept {
  if (why == Errc::fenced) node.must_report = false;
  node.close(why);
  drop_what_cannot_be_written();
}

void Outpost::drop_what_cannot_be_written() noexcept {
  const std::lock_guard lock(frames_mutex_);
  at_hand_.drop_if([this](const Run& run) {
    if (places_of(run.at(0)).count > 0) return false;
    give_back_unless_full(run);
    return true;
  });
}

bool Outpost::hear_grant(std::span<const std::byte> message) noexcept {
  const std::size_t count = kw::run_count(message);
  if (count == SIZE_MAX) return false;
  for (std::size_t i = 0; i < count; ++i) {
    const Run run = kw::run_at(message, i);
    if (!ChunkMap::holds(run)) return false;
    asked_ -= std::min<std::uint64_t>(asked_, run.count);
    bool kept = false;
    {
      const std::lock_guard lock(frames_mutex_);
      kept = places_of(run.at(0)).count > 0 && at_hand_.add(run);
    }
    if (!kept) give_back_unless_full(run);
  }
  refused_.store(false, std::memory_order_release);
  return true;
}

// --- out ---

// Nodes that broke since the last look.
void Outpost::look_at_lanes() noexcept {
  for_each_node([this](OutpostNode& node) {
    const Errc broke = node.broke();
    const bool refused = node.refused_first();
    if (broke != Errc::ok) give_up(node, broke);
    if (refused) drop_what_cannot_be_written();
    if (broke != Errc::ok || refused) node.must_report = true;
  });
}

// False: not all could be reported yet.
bool Outpost::report_lanes() noexcept {
  bool all = true;
  for_each_node([&](OutpostNode& node) {
    if (!all || !node.must_report) return;
    const kw::NodeRef about{node.told().id, 0};
    all = say(kw::Type::lanes, std::as_bytes(std::span(&about, 1))) == Errc::ok;
    if (all) node.must_report = false;
  });
  return all;
}

// True if there is something to send. Before look_at_lanes(): what is gathered was given back before that look, so a
// broken lane that may carry a write to it is seen, and reported first.
bool Outpost::gather_returns() noexcept {
  if (sending_count_ == 0) {
    const std::lock_guard lock(returns_mutex_);
    sending_count_ = returns_.move_out({sending_, kw::kMaxRuns});
  }
  return sending_count_ > 0;
}

// False: the keeper does not read fast enough; the rest goes with the next.
bool Outpost::send_all_returns() noexcept {
  for (;;) {
    const bool some = gather_returns();
    look_at_lanes();
    if (!report_lanes() || !send_returns()) return false;
    if (!some) return true;
  }
}

// True if it is done. REQUIRES: look_at_lanes() and report_lanes() since gather_returns().
bool Outpost::send_returns() noexcept {
  if (sending_count_ == 0) return true;
  const kw::Runs count{static_cast<std::uint32_t>(sending_count_)};
  const auto runs = std::as_bytes(std::span(sending_, sending_count_));
  if (say(kw::Type::give_back, std::as_bytes(std::span(&count, 1)), runs) != Errc::ok) return false;
  sending_count_ = 0;
  return true;
}

void Outpost::give_back_unless_full(const Run& run) noexcept {
  const std::lock_guard lock(returns_mutex_);
  if (!returns_.add(run)) stranded_.fetch_add(run.count, std::memory_order_relaxed);
}

// How many frames to keep at hand: twice as many when there were too few, few again when none are taken.
void Outpost::mind_stock() noexcept {
  const std::uint64_t taken = taken_.load(std::memory_order_relaxed);
  const auto now = Clock::now();
  if (ran_dry_.exchange(false, std::memory_order_relaxed) && !refused_.load(std::memory_order_relaxed)) {
    stock_ = std::min(config_.most_stock, std::max(stock_ * 2, config_.first_stock));
    busy_at_ = now;
  }
  if (taken != taken_before_) busy_at_ = now;
  taken_before_ = taken;
  if (now - busy_at_ < config_.idle || stock_ == config_.first_stock) return;
  stock_ = config_.first_stock;
  const std::lock_guard lock(frames_mutex_);
  while (at_hand_.frames() > stock_) {
    Run run;
    if (at_hand_.move_out({&run, 1}) == 0) break;
    give_back_unless_full(run);
  }
}

void Outpost::ask(std::uint32_t least) noexcept {
  std::uint64_t have = asked_;
  {
    const std::lock_guard lock(frames_mutex_);
    have += at_hand_.frames();
  }
  const std::uint64_t target = std::max(stock_, std::min(least, kw::kMaxWant / 2));
  // In half-stocks, not frame by frame; whoever waits for more than there is coming gets it at once.
  if (have >= target || (have > stock_ / 2 && have >= least)) return;
  const kw::Want want{code_.round_up(static_cast<std::uint32_t>(target - have))};
  if (asked_ + want.frames > kw::kMaxWant) return;
  if (say(kw::Type::want, std::as_bytes(std::span(&want, 1))) == Errc::ok) asked_ += want.frames;
}

}  // namespace comex
