#include "run/keeper/census.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <sstream>

#include "base/read_file.h"

namespace comex {
namespace {

std::uint64_t get(const std::atomic<std::uint64_t>& count) {
  return count.load(std::memory_order_relaxed);
}

bool has_ended(const Fd& pidfd) {
  pollfd ended{pidfd.get(), POLLIN, 0};
  return poll(&ended, 1, 0) == 1;
}

std::string name_of(const Record& record) {
  std::string name;
  for (const auto& letter : record.name) {
    if (letter.load(std::memory_order_relaxed) == 0) break;
    name += letter.load(std::memory_order_relaxed);
  }
  return name;
}

}  // namespace

Figures Figures::of(const Room::Owned& owned) {
  Figures sum;
  for (const Tally& tally : owned.record.tallies) {
    const PagerStats& pager = tally.pager;
    for (std::size_t i = 0; i < sum.faults.size(); ++i) sum.faults[i] += get(pager.faults[i]);
    sum.pages_in += get(pager.pages_in);
    sum.pages_along += get(pager.pages_along);
    sum.along_used += get(pager.along_used);
    sum.pages_around += get(pager.pages_around);
    sum.around_used += get(pager.around_used);
    for (std::size_t i = 0; i < sum.leads.size(); ++i) sum.leads[i] += get(pager.leads[i]);
    sum.known += get(pager.known);
    sum.unknown += get(pager.unknown);
    sum.evicted += get(pager.evicted);
    sum.dropped += get(pager.dropped);
    sum.evictions_by_faults += get(pager.evictions_by_faults);
    sum.waits += get(pager.waits);
    sum.wrong += get(pager.wrong);
    sum.mended += get(pager.mended);
    sum.fault_ns += get(pager.fault_ns);
    sum.calls += get(tally.calls);
    sum.direct_calls += get(tally.direct_calls);
  }
  sum.peak = get(owned.account.peak);
  for (const Traffic& each : owned.record.traffic) {
    const std::uint32_t node = each.node.load(std::memory_order_relaxed);
    if (node == 0) continue;
    sum.links[static_cast<std::uint16_t>(node - 1)] =
        Link{get(each.reads), get(each.writes), get(each.pages_read), get(each.pages_written)};
  }
  return sum;
}

void Figures::add(const Figures& other) {
  for (std::size_t i = 0; i < faults.size(); ++i) faults[i] += other.faults[i];
  pages_in += other.pages_in;
  pages_along += other.pages_along;
  along_used += other.along_used;
  pages_around += other.pages_around;
  around_used += other.around_used;
  for (std::size_t i = 0; i < leads.size(); ++i) leads[i] += other.leads[i];
  known += other.known;
  unknown += other.unknown;
  evicted += other.evicted;
  dropped += other.dropped;
  evictions_by_faults += other.evictions_by_faults;
  waits += other.waits;
  wrong += other.wrong;
  mended += other.mended;
  fault_ns += other.fault_ns;
  calls += other.calls;
  direct_calls += other.direct_calls;
  for (const auto& [node, link] : other.links) {
    Link& mine = links[node];
    mine.reads += link.reads;
    mine.writes += link.writes;
    mine.pages_read += link.pages_read;
    mine.pages_written += link.pages_written;
  }
}

std::uint64_t start_of_process(std::uint32_t pid) {
  constexpr int kStartField = 22;
  constexpr std::uint64_t kNsPerSecond = 1'000'000'000;
  const std::string stat = read_file(fmt::format("/proc/{}/stat", pid)).value_or("");
  // The second field is a name in brackets, which may hold anything.
  const auto bracket = stat.rfind(')');
  if (bracket == std::string::npos) return 0;
  std::istringstream rest(stat.substr(bracket + 1));
  std::string field;
  for (int i = 2; i < kStartField && rest >> field; ++i) {
  }
  static const auto ticks = static_cast<std::uint64_t>(sysconf(_SC_CLK_TCK));
  return std::strtoull(field.c_str(), nullptr, 10) * (kNsPerSecond / ticks);
}

void Census::look() {
  const std::size_t used = room_.used.load(std::memory_order_acquire);
  for (std::size_t i = 0; i < used; ++i) {
    const std::uint32_t pid = room_.accounts[i].pid.load(std::memory_order_acquire);
    if (pid == 0) continue;
    const auto found = watched_.find(i);
    if (found != watched_.end() && found->second.pidfd && !has_ended(found->second.pidfd)) continue;
    begin(i, pid);
  }
}

// Also for one that has ended: another of the same number may have taken over its account.
void Census::begin(std::size_t index, std::uint32_t pid) {
  Watched& watched = watched_[index];
  watched.pid = pid;
  watched.pidfd = Fd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  // Without one (there are no descriptors left) it is tried again at the next look.
  const bool gone = watched.pidfd ? has_ended(watched.pidfd) : errno == ESRCH || errno == EINVAL;
  if (gone || !is_of(index, pid)) end(index);
}

bool Census::is_of(std::size_t index, std::uint32_t pid) const {
  const std::uint64_t since = room_.accounts[index].record.since.load(std::memory_order_acquire);
  return since == 0 || start_of_process(pid) <= since;
}

bool has_account(Room& room, std::uint32_t pid) {
  const Room::Owned* const owned = pid != 0 ? room.find(pid) : nullptr;
  if (owned == nullptr) return false;
  const std::uint64_t since = owned->record.since.load(std::memory_order_acquire);
  const std::uint64_t start = start_of_process(pid);
  return since != 0 && start != 0 && start <= since;
}

void Census::end(std::size_t index) {
  Room::Owned& owned = room_.accounts[index];
  const Watched watched = std::move(watched_[index]);
  watched_.erase(index);
  Figures figures = Figures::of(owned);
  total_.add(figures);
  ++ended_count_;
  if (ended_.size() < kMostKept) {
    ended_.push_back(ProcessFigures{watched.pid, name_of(owned.record), std::move(figures)});
  }
  if (on_end_) on_end_(index);
  room_.close_account(owned);
}

}  // namespace comex
