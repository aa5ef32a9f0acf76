#include "trace/summary.h"

#include <algorithm>
#include <bitset>
#include <unordered_map>

namespace comex {
namespace {

constexpr unsigned kPartShift = 9;     // a part of memory: 512 pages, 2 MiB of most machines
constexpr std::uint64_t kNear = 1024;  // pages: regions with less between them are one

struct Part {
  std::bitset<1U << kPartShift> pages;
  std::uint64_t faults = 0;
};

bool brings_in(Origin origin) {
  return origin == Origin::zeros || origin == Origin::staged || origin == Origin::buffered || origin == Origin::remote;
}

// The last faults of a thread.
class Recent {
 public:
  void step(const TraceFault& fault, TraceSteps& steps) {
    const std::uint64_t delta = fault.page - last_;
    if (count_ > 0) ++(follows(fault.page) ? steps.sequential : delta == delta_ ? steps.strided : steps.other);
    const Place here{fault.page, fault.along + std::uint64_t{1}};
    places_[count_++ % places_.size()] = here;
    delta_ = delta;
    last_ = fault.page;
  }

 private:
  struct Place {
    std::uint64_t page = 0;
    std::uint64_t pages = 0;  // with those that came along
  };
  [[nodiscard]] bool follows(std::uint64_t page) const {
    return std::any_of(places_.begin(), places_.begin() + static_cast<std::ptrdiff_t>(std::min(count_, places_.size())),
                       [&](const Place& place) {
                         const std::uint64_t distance = page - place.page;
                         return (distance > 0 && distance <= place.pages) || ~distance == 0;
                       });
  }

  std::array<Place, 8> places_;
  std::size_t count_ = 0;
  std::uint64_t last_ = 0;
  std::uint64_t delta_ = 0;
};

class Summing final : public TraceVisitor {
 public:
  explicit Summing(const TraceFilter& filter) : filter_(filter) {}

  void process(const TraceProcess& process) override {
    if (filter_.pid && *filter_.pid != process.pid) {
      of_.erase(process.number);
      return;
    }
    of_[process.number] = sums_.size();
    sums_.push_back({});
    sums_.back().summary.process = process;
  }
  void fault(const TraceFault& fault) override {
    const auto found = of_.find(fault.process);
    if (found == of_.end() || fault.time < filter_.from || fault.time > filter_.to) return;
    Sum& sum = sums_[found->second];
    TraceFigures& figures = sum.summary.threads[fault.thread];
    ++figures.by_origin[static_cast<std::size_t>(fault.origin)];
    figures.writes += fault.write ? 1 : 0;
    figures.along += fault.along;
    figures.around += fault.around;
    if (brings_in(fault.origin)) sum.recent[fault.thread].step(fault, figures.steps);
    Part& part = sum.parts[fault.page >> kPartShift];
    part.pages.set(fault.page & (part.pages.size() - 1));
    ++part.faults;
    end_ = std::max(end_, fault.time);
  }
  void dropped(std::uint32_t number, std::uint64_t time, std::uint64_t count) override {
    const auto found = of_.find(number);
    if (found != of_.end() && time >= filter_.from && time <= filter_.to) {
      sums_[found->second].summary.dropped += count;
    }
  }

  TraceSummary take() {
    TraceSummary summary;
    summary.end = end_;
    std::erase_if(sums_, [](const Sum& sum) { return sum.summary.threads.empty() && sum.summary.dropped == 0; });
    std::stable_sort(sums_.begin(), sums_.end(), [](const Sum& a, const Sum& b) { return a.faults() > b.faults(); });
    for (Sum& sum : sums_) {
      add_regions(summary.processes.size(), sum.parts, summary.regions);
      summary.processes.push_back(std::move(sum.summary));
    }
    std::stable_sort(summary.regions.begin(), summary.regions.end(),
                     [](const TraceRegion& a, const TraceRegion& b) { return a.faults > b.faults; });
    return summary;
  }

 private:
  struct Sum {
    TraceProcessSummary summary;
    std::unordered_map<std::uint32_t, Recent> recent;
    std::map<std::uint64_t, Part> parts;  // by first page, in parts

    [[nodiscard]] std::uint64_t faults() const { return summary.figures().faults(); }
  };

  static void add_regions(std::size_t process, const std::map<std::uint64_t, Part>& parts,
                          std::vector<TraceRegion>& to) {
    const std::size_t begin = to.size();
    for (const auto& [number, part] : parts) {
      const std::size_t lowest = part.pages._Find_first();
      std::size_t highest = part.pages.size() - 1;
      while (!part.pages.test(highest)) --highest;
      const std::uint64_t first = (number << kPartShift) + lowest;
      if (to.size() == begin || first - to.back().last > kNear) to.push_back({.process = process, .first = first});
      TraceRegion& region = to.back();
      region.last = (number << kPartShift) + highest;
      region.pages += part.pages.count();
      region.faults += part.faults;
    }
  }

  const TraceFilter filter_;
  std::unordered_map<std::uint32_t, std::size_t> of_;  // by number in the trace
  std::vector<Sum> sums_;
  std::uint64_t end_ = 0;
};

}  // namespace

void TraceSteps::add(const TraceSteps& more) {
  sequential += more.sequential;
  strided += more.strided;
  other += more.other;
}

void TraceFigures::add(const TraceFigures& more) {
  for (std::size_t i = 0; i < by_origin.size(); ++i) by_origin[i] += more.by_origin[i];
  writes += more.writes;
  along += more.along;
  around += more.around;
  steps.add(more.steps);
}

std::uint64_t TraceFigures::faults() const {
  std::uint64_t sum = 0;
  for (const std::uint64_t count : by_origin) sum += count;
  return sum;
}

TraceFigures TraceProcessSummary::figures() const {
  TraceFigures sum;
  for (const auto& [id, figures] : threads) sum.add(figures);
  return sum;
}

TraceFigures TraceSummary::figures() const {
  TraceFigures sum;
  for (const TraceProcessSummary& process : processes) sum.add(process.figures());
  return sum;
}

std::uint64_t TraceSummary::dropped() const {
  std::uint64_t sum = 0;
  for (const TraceProcessSummary& process : processes) sum += process.dropped;
  return sum;
}

Expected<TraceSummary> summarise(const TraceReader& reader, const TraceFilter& filter) {
  Summing summing(filter);
  const auto cut = reader.read(summing);
  if (!cut) return cut.error();
  TraceSummary summary = summing.take();
  summary.header = reader.header();
  summary.cut = *cut;
  return summary;
}

std::string name_of(Origin origin) {
  switch (origin) {
    case Origin::already: return "brought by another";
    case Origin::zeros: return "first touch";
    case Origin::written: return "write to a clean page";
    case Origin::staged: return "staging";
    case Origin::buffered: return "read buffer";
    case Origin::remote: return "node";
    case Origin::lost: return "lost";
    case Origin::failed: return "failed";
  }
  return "?";
}

// Those of --stats.
std::string key_of(Origin origin) {
  switch (origin) {
    case Origin::already: return "resolved_by_another_thread";
    case Origin::zeros: return "first_touch";
    case Origin::written: return "write_to_clean_page";
    case Origin::staged: return "from_staging";
    case Origin::buffered: return "from_read_buffer";
    case Origin::remote: return "from_node";
    case Origin::lost: return "lost";
    case Origin::failed: return "failed";
  }
  return "?";
}

}  // namespace comex
