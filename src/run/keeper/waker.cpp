#include "run/keeper/waker.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

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
// After so long, and then after a part of the time that it has not worked. At most: it may grow meanwhile.
constexpr Millis kAgain{10};
constexpr int kAgainPart = 4;
constexpr Millis kTellAfter{2'000};
constexpr Millis kMostAgain{100};  // as fast as memory is, it is far beyond its budget by then

struct Sizes {
  std::uint64_t addresses = 0;  // pages, all of them
  std::uint64_t resident = 0;
  std::uint64_t shared = 0;
};

// Calls f(folder) for the first thread of a process, and for its others, until it returns true. What is said of a
// process is said by its first thread, which has neither memory nor namespaces once it has ended: then by another.
template <typename F>
void ask(std::uint32_t pid, F&& f) {
  std::array<char, 64> path{};
  std::snprintf(path.data(), path.size(), "/proc/%u", pid);
  if (f(path.data())) return;
  std::snprintf(path.data(), path.size(), "/proc/%u/task", pid);
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir(path.data()), &closedir);
  if (folder == nullptr) return;
  while (const dirent* const entry = readdir(folder.get())) {
    const int thread = std::atoi(entry->d_name);
    if (thread <= 0) continue;
    std::snprintf(path.data(), path.size(), "/proc/%u/task/%d", pid, thread);
    if (f(path.data())) return;
  }
}

// As statm in the folder has them.
Sizes read_sizes(const char* folder) {
  std::array<char, 96> path{};
  std::snprintf(path.data(), path.size(), "%s/statm", folder);
  const Fd file(::open(path.data(), O_RDONLY | O_CLOEXEC));
  std::array<char, 128> text{};
  if (!file || ::read(file.get(), text.data(), text.size() - 1) <= 0) return {};
  char* at = text.data();
  Sizes sizes;
  for (std::uint64_t* const field : {&sizes.addresses, &sizes.resident, &sizes.shared}) {
    *field = std::strtoull(at, &at, 10);
  }
  return sizes;
}

Sizes sizes_of(std::uint32_t pid) {
  Sizes sizes;
  ask(pid, [&](const char* folder) {
    sizes = read_sizes(folder);
    return sizes.addresses != 0;
  });
  return sizes;
}

std::string link_of(const char* folder, const char* name) {
  std::array<char, 96> path{};
  std::array<char, 64> target{};
  std::snprintf(path.data(), path.size(), "%s/ns/%s", folder, name);
  const ssize_t length = readlink(path.data(), target.data(), target.size());
  return {target.data(), static_cast<std::size_t>(std::max<ssize_t>(length, 0))};
}

// Whether the runtime can have what it needs there. Whoever has its children begin in another PID namespace (unshare,
// setns) gets no thread any more: until the first child is there that namespace has no name. And names of sockets are
// those of a network namespace: in another, the keeper's is not known.
bool can_be_awake(std::uint32_t pid) {
  bool can = true;  // if nobody says anything
  ask(pid, [&](const char* folder) {
    const std::string network = link_of(folder, "net");
    if (network.empty()) return false;
    can = network == link_of("/proc/self", "net") && link_of(folder, "pid") == link_of(folder, "pid_for_children");
    return true;
  });
  return can;
}

}  // namespace

std::uint64_t private_pages(std::uint32_t pid) {
  const Sizes sizes = sizes_of(pid);
  return sizes.resident > sizes.shared ? sizes.resident - sizes.shared : 0;
}

Waker::Waker(Room& room, std::uint64_t budget_pages, Failed on_failure)
    : room_(room),
      budget_(budget_pages),
      near_(budget_pages - budget_pages / 4),
      on_failure_(std::move(on_failure)),
      thread_([this] { run(); }) {}

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
    Room::Owned* const next = use.asking != nullptr ? use.asking : use.all >= near_ ? use.largest : nullptr;
    if (next != nullptr) wake(*next);
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
    const std::uint64_t pages = private_pages(pid) + owned.docked.load(std::memory_order_relaxed);
    const std::uint64_t charged = owned.account.local.load(std::memory_order_relaxed);
    use.all += std::max(pages, charged);
    use.elsewhere += pages > charged ? pages - charged : 0;
    const bool dormant = owned.life.load(std::memory_order_acquire) == Room::Life::dormant;
    use.dormant = use.dormant || dormant;
    if (!dormant || !may_be_tried(owned, pid)) continue;
    if (owned.asks.load(std::memory_order_acquire)) use.asking = &owned;
    if (pages > use.largest_pages && pages >= kWorthWaking) {
      use.largest = &owned;
      use.largest_pages = pages;
    }
  }
  return use;
}

bool Waker::may_be_tried(Room::Owned& owned, std::uint32_t pid) {
  const auto found = troubles_.find(&owned);
  if (found == troubles_.end()) return true;
  const Trouble& trouble = found->second;
  if (trouble.pid == pid && trouble.desk == owned.desk.load(std::memory_order_acquire)) {
    return Clock::now() >= trouble.not_before;
  }
  troubles_.erase(found);  // it is another process, or another program
  return true;
}

void Waker::try_later(Room::Owned& owned, std::uint32_t pid, std::uint64_t desk, const Error& why) {
  const auto now = Clock::now();
  Trouble& trouble = troubles_.try_emplace(&owned, Trouble{pid, desk, now, now, now, now}).first->second;
  const Nanos part = std::chrono::duration_cast<Nanos>(now - trouble.since) / kAgainPart;
  trouble.not_before = now + std::clamp<Nanos>(part, kAgain, kMostAgain);
  if (now - trouble.tried > kTellAfter / 2 || private_pages(pid) <= budget_) trouble.over_since = now;
  trouble.tried = now;
  if (trouble.told || now - trouble.over_since < kTellAfter) return;
  trouble.told = true;
  fmt::print(stderr, "comex: process {} could not be taken over yet ({}): its memory is here, beyond --local\n", pid,
             why.message);
}

void Waker::wake(Room::Owned& owned) {
  const auto pid = static_cast<pid_t>(owned.pid.load(std::memory_order_acquire));
  auto sleeping = Room::Life::dormant;
  if (!owned.life.compare_exchange_strong(sleeping, Room::Life::waking, std::memory_order_acq_rel)) return;
  // Unless it has become another program since, which is dormant, and must be left so: it would be woken twice.
  const auto become = [&](Room::Life next) {
    auto waking = Room::Life::waking;
    owned.life.compare_exchange_strong(waking, next, std::memory_order_acq_rel);
  };
  const auto still = [&] { return owned.life.load(std::memory_order_acquire) == Room::Life::waking; };
  if (!can_be_awake(static_cast<std::uint32_t>(pid))) return become(Room::Life::left_alone);
  // Without a desk it has just begun, and whatever handler there is may be the program's.
  const std::uint64_t desk = owned.desk.load(std::memory_order_acquire);
  const auto poked = desk != 0 ? poke(pid, 0, desk, Deadline(kStopPatience), still)
                               : Expected<std::uint32_t>(Error{Errc::busy, "it has just begun"});
  if (poked) {
    troubles_.erase(&owned);
    return;
  }
  // Another time: it is ending, or does something that cannot be stopped now.
  if (on_failure_) on_failure_(pid, poked.error());
  become(Room::Life::dormant);
  try_later(owned, static_cast<std::uint32_t>(pid), desk, poked.error());
}

void Waker::stop_threads(Room::Owned& owned) {
  const auto asking = static_cast<pid_t>(owned.stop_for.load(std::memory_order_acquire));
  const auto pid = static_cast<pid_t>(owned.pid.load(std::memory_order_acquire));
  const auto still = [&] {
    return owned.stop_for.load(std::memory_order_acquire) == static_cast<std::uint32_t>(asking);
  };
  const auto count = poke(pid, asking, 0, Deadline(kStopPatience), still, true);
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
  if (use.asking != nullptr) return kLeastPause;
  if (!use.dormant) return kMostPause;  // those that are awake look after themselves
  return std::clamp<Nanos>(until_full, kLeastPause, kMostPause);
}

}  // namespace comex
