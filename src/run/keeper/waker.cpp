#include "run/keeper/waker.h"

#include <fcntl.h>
#include <sched.h>
#include <spdlog/spdlog.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>

#include "base/fd.h"
#include "base/futex.h"
#include "base/units.h"
#include "run/keeper/poke.h"

namespace comex {
namespace {

constexpr std::uint64_t kWorthWaking = 256;     // pages
constexpr std::uint64_t kFastest = 8ULL << 18;  // pages that can be touched in a second: 8 GiB, in huge pages
constexpr Millis kMostPause{50};
constexpr Millis kLeastPause{2};
constexpr Millis kStopPatience{200};
constexpr int kEager = -15;
constexpr Millis kAgain{10};

}  // namespace

std::uint64_t private_pages(std::uint32_t pid) {
  std::array<char, 32> path{};
  std::snprintf(path.data(), path.size(), "/proc/%u/statm", pid);
  const Fd file(::open(path.data(), O_RDONLY | O_CLOEXEC));
  std::array<char, 128> text{};
  if (!file || ::read(file.get(), text.data(), text.size() - 1) <= 0) return 0;
  char* at = text.data();
  std::strtoull(at, &at, 10);  // addresses
  const std::uint64_t resident = std::strtoull(at, &at, 10);
  const std::uint64_t shared = std::strtoull(at, &at, 10);
  return resident > shared ? resident - shared : 0;
}

Waker::Waker(Room& room, std::uint64_t budget_pages)
    : room_(room), budget_(budget_pages), near_(budget_pages - budget_pages / 4), thread_([this] { run(); }) {}

Waker::~Waker() {
  closing_.store(true, std::memory_order_release);
  room_.request.fetch_add(1, std::memory_order_release);
  futex_wake_all_shared(room_.request);
  thread_.join();
}

void Waker::run() {
  prctl(PR_SET_NAME, "comex-waker");
  // Where that is allowed: who watches must not come too late because the machine is busy. It takes little.
  const sched_param first{.sched_priority = 1};
  if (sched_setscheduler(0, SCHED_RR | SCHED_RESET_ON_FORK, &first) != 0) {
    setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kEager);
  }
  while (!closing_.load(std::memory_order_acquire)) {
    const std::uint32_t seen = room_.request.load(std::memory_order_acquire);
    const Use use = look();
    room_.set_budget(budget_, use.elsewhere);
    if (use.largest != nullptr && use.all >= near_ && Clock::now() >= not_before_) wake(*use.largest);
    futex_wait_shared(room_.request, seen, pause(use));
  }
}

Waker::Use Waker::look() {
  Use use;
  const std::uint32_t used = room_.used.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < used; ++i) {
    Room::Owned& owned = room_.accounts[i];
    const std::uint32_t pid = owned.pid.load(std::memory_order_acquire);
    if (pid == 0) continue;
    if (owned.stop_for.load(std::memory_order_acquire) != 0) stop_threads(owned);
    const std::uint64_t pages = private_pages(pid);
    const std::uint64_t charged = owned.account.local.load(std::memory_order_relaxed);
    use.all += std::max(pages, charged);
    use.elsewhere += pages > charged ? pages - charged : 0;
    const bool dormant = owned.life.load(std::memory_order_acquire) == Room::Life::dormant;
    use.dormant = use.dormant || dormant;
    if (dormant && pages > use.largest_pages && pages >= kWorthWaking) {
      use.largest = &owned;
      use.largest_pages = pages;
    }
  }
  return use;
}

void Waker::wake(Room::Owned& owned) {
  const auto pid = static_cast<pid_t>(owned.pid.load(std::memory_order_acquire));
  auto sleeping = Room::Life::dormant;
  if (!owned.life.compare_exchange_strong(sleeping, Room::Life::waking, std::memory_order_acq_rel)) return;
  // Without a desk it has just begun, and whatever handler there is may be the program's.
  const std::uint64_t desk = owned.desk.load(std::memory_order_acquire);
  const auto poked = desk != 0 ? poke(pid, 0, desk, Deadline(kStopPatience))
                               : Expected<std::uint32_t>(Error{Errc::busy, "it has just begun"});
  if (poked) return;
  // Another time: it is ending, or does something that cannot be stopped now.
  spdlog::debug("process {} cannot be woken now: {}", pid, poked.error().message);
  auto waking = Room::Life::waking;
  owned.life.compare_exchange_strong(waking, Room::Life::dormant, std::memory_order_acq_rel);
  not_before_ = Clock::now() + kAgain;
}

void Waker::stop_threads(Room::Owned& owned) {
  const auto asking = static_cast<pid_t>(owned.stop_for.load(std::memory_order_acquire));
  const auto pid = static_cast<pid_t>(owned.pid.load(std::memory_order_acquire));
  const auto count = poke(pid, asking, 0, Deadline(kStopPatience));
  // A process with one thread has none to stop, which is as good.
  const bool none = !count && count.error().code == Errc::disconnected;
  if (!count && !none) return;  // asked again at the next look
  owned.stop_for.store(0, std::memory_order_relaxed);
  owned.stopped.store(1 + (none ? 0 : *count), std::memory_order_release);
  futex_wake_all_shared(owned.stopped);
}

Nanos Waker::pause(const Use& use) const {
  const std::uint64_t left = use.all < budget_ ? budget_ - use.all : 0;
  const Nanos until_full{left * 1'000'000'000 / kFastest};
  if (!use.dormant) return kMostPause;  // those that are awake look after themselves
  return std::clamp<Nanos>(until_full, kLeastPause, kMostPause);
}

}  // namespace comex
