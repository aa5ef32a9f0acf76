#include "run/keeper/tracer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace comex {
namespace {

constexpr Millis kLook{20};                   // a ring takes many times that long to fill
constexpr std::chrono::seconds kHopeless{1};  // for a thread to fill a slot that it has taken
constexpr std::size_t kBatch = 4096;          // faults in a chunk of the file

}  // namespace

Tracer::Tracer(Room& room, std::span<TraceRing> rings, const Fd& memory, const Fd& file, const TraceHeader& header,
               Profiler* profiler)
    : room_(room), rings_(rings), memory_(memory), file_(file), profiler_(profiler), sources_(rings.size()) {
  (void)!ftruncate(file_.get(), 0);  // it may be a device
  encoder_.header(header);
  write();
  thread_ = std::thread([this] { run(); });
}

Tracer::~Tracer() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  turn_.notify_all();
  thread_.join();
  look();
}

void Tracer::finish(std::size_t account) {
  const std::lock_guard lock(mutex_);
  if (!room_.accounts[account].traced.exchange(false, std::memory_order_acquire)) return;
  drain(account, true);
  write();
  sources_[account] = {};
  // Zeros again, and no memory.
  const auto at = static_cast<off_t>(Room::rings_at() + account * sizeof(TraceRing));
  (void)fallocate(memory_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, sizeof(TraceRing));
}

void Tracer::run() {
  prctl(PR_SET_NAME, "comex-tracer");
  std::unique_lock lock(mutex_);
  while (!closing_) {
    look();
    turn_.wait_for(lock, kLook);
  }
}

void Tracer::look() {
  const std::uint32_t used = room_.used.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < used; ++i) {
    // Looking at a ring gives it memory.
    if (room_.accounts[i].traced.load(std::memory_order_acquire)) drain(i, false);
  }
  write();
}

void Tracer::drain(std::size_t account, bool ended) {
  TraceRing& ring = rings_[account];
  Source& source = sources_[account];
  std::uint64_t dropped = 0;
  char name[TraceRing::kName];
  TraceNote note;
  for (TraceFault fault;;) {
    const TraceRing::Next next = ring.next(&fault, name, &note);
    if (next == TraceRing::Next::none) break;
    if (next == TraceRing::Next::unfinished) {
      if (!hopeless(source, ended)) break;
      ring.give_up();
      ++dropped;
      continue;
    }
    source.unfinished = {};
    if (next == TraceRing::Next::begin) {
      tell_faults(account);
      begin(account, fault.time, name);
      continue;
    }
    if (next == TraceRing::Next::note) {
      if (profiler_ != nullptr && source.number != 0) profiler_->note(source.number, note);
      continue;
    }
    // What is in a ring is what the program left in it.
    if (!is_origin(static_cast<unsigned>(fault.origin))) continue;
    if (source.number == 0) begin(account, fault.time, "");
    batch_.push_back(fault);
    if (batch_.size() == kBatch) {
      tell_faults(account);
      write();
    }
  }
  tell_faults(account);
  dropped += ring.take_dropped();
  if (dropped == 0) return;
  if (source.number == 0) begin(account, now(), "");
  encoder_.dropped(source.number, now(), dropped);
}

void Tracer::tell_faults(std::size_t account) {
  const std::uint32_t number = sources_[account].number;
  encoder_.faults(number, batch_);
  if (profiler_ != nullptr && !batch_.empty()) profiler_->faults(number, batch_);
  batch_.clear();
}

bool Tracer::hopeless(Source& source, bool ended) {
  if (source.unfinished == Clock::time_point{}) source.unfinished = Clock::now();
  if (!ended && Clock::now() - source.unfinished < kHopeless) return false;
  source.unfinished = {};
  return true;
}

void Tracer::begin(std::size_t account, std::uint64_t time, const char* name) {
  sources_[account].number = ++processes_;
  encoder_.process({.number = processes_,
                    .pid = room_.accounts[account].pid.load(std::memory_order_relaxed),
                    .time = time,
                    .name = name});
  if (profiler_ != nullptr) profiler_->process(processes_, name);
}

std::uint64_t Tracer::now() const {
  return static_cast<std::uint64_t>(Nanos(Clock::now().time_since_epoch()).count()) -
         room_.trace_start.load(std::memory_order_relaxed);
}

void Tracer::write() {
  const std::vector<std::byte> bytes = encoder_.take();
  for (std::size_t at = 0; file_ && at < bytes.size() && !failed_;) {
    const ssize_t count = ::write(file_.get(), bytes.data() + at, bytes.size() - at);
    if (count > 0) at += static_cast<std::size_t>(count);
    if (count >= 0 || errno == EINTR) continue;
    failed_ = true;
    fmt::print(stderr, "comex: cannot write the file of --trace, which ends here: {}\n", std::strerror(errno));
  }
}

}  // namespace comex
