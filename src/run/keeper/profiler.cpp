#include "run/keeper/profiler.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/fd.h"
#include "base/read_file.h"
#include "pager/prefetch/recorded.h"
#include "run/keeper/profile_merge.h"
#include "run/keeper/score_writer.h"

namespace comex {
namespace {

constexpr std::uint64_t kKnowsEnough = 90;  // per cent of the faults: nothing is added to such a profile
constexpr std::uint64_t kMostTimes = 4;     // ... nor to one that has so many times the faults of one run

std::vector<std::byte> read_all(const std::string& path) {
  const std::string text = read_file(path).value_or("");
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

// Beside the file first, so that there is never half of one.
Expected<void> replace(const std::string& path, std::span<const std::byte> bytes) {
  const std::string beside = fmt::format("{}.{}", path, getpid());
  const Fd file(::open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!file) return system_error("cannot write");
  while (!bytes.empty()) {
    const ssize_t count = ::write(file.get(), bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
  if (bytes.empty() && ::rename(beside.c_str(), path.c_str()) == 0) return {};
  const Error error = system_error("cannot write");
  ::unlink(beside.c_str());
  return error;
}

std::uint64_t percent(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 100 : part * 100 / whole;
}

bool was_away(Origin origin) {
  return origin == Origin::staged || origin == Origin::buffered || origin == Origin::remote;
}

}  // namespace

Profiler::Profiler(std::string file, std::span<std::byte> score) : file_(std::move(file)) {
  const std::vector<std::byte> bytes = read_all(file_);
  if (bytes.empty()) return;
  auto profile = decode_profile(bytes);
  if (!profile) {
    damage_ = profile.error().message;
    return;
  }
  old_ = *std::move(profile);
  write_score(old_, score);
}

void Profiler::process(std::uint32_t process, std::string_view name) {
  sources_[process].process.name = name;
}

void Profiler::note(std::uint32_t process, const TraceNote& note) {
  Source& source = sources_[process];
  switch (note.what) {
    case TraceNote::executable: source.process.executable = note.value; break;
    case TraceNote::arguments: source.process.arguments = note.value; break;
    case TraceNote::image: source.anchors.at[Anchors::image] = PageNo{note.value}; break;
    case TraceNote::heap: source.anchors.at[Anchors::heap] = PageNo{note.value}; break;
    case TraceNote::mappings: source.anchors.at[Anchors::mappings] = PageNo{note.value}; break;
    default: break;
  }
}

// The beginning is what is kept of a program that faults more often.
void Profiler::faults(std::uint32_t process, std::span<const TraceFault> faults) {
  Source& source = sources_[process];
  for (const TraceFault& fault : faults) {
    if (!was_away(fault.origin) || kept_ == Profile::kMostFaults) continue;
    const auto [found, first] = source.threads.try_emplace(fault.thread, source.process.threads.size());
    if (first) source.process.threads.emplace_back();
    source.process.threads[found->second].push_back(source.anchors.key_of(PageNo{fault.page}).value);
    ++kept_;
  }
}

// Those with the most faults, in the order in which they began.
Profile Profiler::made() {
  std::vector<std::pair<std::uint64_t, std::uint32_t>> by_faults;
  for (const auto& [number, source] : sources_) {
    if (const std::uint64_t faults = source.process.faults(); faults > 0) by_faults.emplace_back(faults, number);
  }
  std::sort(by_faults.rbegin(), by_faults.rend());
  by_faults.resize(std::min(by_faults.size(), Profile::kMostProcesses));
  std::vector<std::uint32_t> numbers;
  for (const auto& [faults, number] : by_faults) numbers.push_back(number);
  std::sort(numbers.begin(), numbers.end());
  Profile profile;
  for (const std::uint32_t number : numbers) profile.processes.push_back(std::move(sources_[number].process));
  return profile;
}

std::string Profiler::misfit(const Played& played) const {
  if (!damage_.empty()) return damage_;
  if (!played.anybody) return fmt::format("it was of another program, {}", old_.processes.front().name);
  if (played.known * Recorded::kOneIn >= played.all()) return "";
  return fmt::format("it knew {} % of {} faults", percent(played.known, played.all()), played.all());
}

// Of one that fits.
std::string Profiler::use(const Played& played, const Profile& now) const {
  const std::uint64_t known = percent(played.known, played.all());
  std::string line = fmt::format("used; it knew {} % of {} faults", known, played.all());
  if (known >= kKnowsEnough || now.faults() == 0 || old_.faults() > kMostTimes * now.faults()) return line;
  const Profile both = merge(old_, now);
  if (both.faults() > Profile::kMostFaults) return line;
  const auto written = replace(file_, encode_profile(both));
  if (!written) return line + "; " + written.error().message;
  return line + fmt::format(", and {} were added", both.faults() - old_.faults());
}

std::string Profiler::conclude(const Played& played) {
  const Profile now = made();
  const bool first = !played.wanted || (damage_.empty() && old_.processes.empty());
  const std::string why = first ? "" : misfit(played);
  const auto line = [&](const std::string& what) { return fmt::format("profile {}: {}", file_, what); };
  if (!first && why.empty()) return line(use(played, now));
  const std::string before = why.empty() ? "" : fmt::format("did not fit ({}), ", why);
  if (now.processes.empty()) return line(before + "not made, for the program needed no memory from elsewhere");
  if (const auto written = replace(file_, encode_profile(now)); !written) return line(written.error().message);
  return line(fmt::format("{}made: {} faults of {} process{}", before, now.faults(), now.processes.size(),
                          now.processes.size() == 1 ? "" : "es"));
}

}  // namespace comex
