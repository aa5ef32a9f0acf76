#include "bench/pool_bench.h"

#include <fmt/format.h>

#include "bench/allocation.h"
#include "bench/host_load.h"
#include "bench/interrupt.h"
#include "bench/own_nodes.h"
#include "bench/peers/bare_tcp.h"
#include "bench/peers/comex_link.h"
#include "bench/peers/mapped.h"
#include "bench/peers/nbdkit.h"
#include "bench/peers/perftest.h"
#include "bench/peers/redis.h"
#include "bench/perftest_turns.h"

namespace comex::bench {

namespace {

constexpr std::uint64_t kOwnNodeMemory = std::uint64_t{512} << 20;
constexpr double kLatencyShare = 0.45;  // of the time; throughput has as much, allocation the rest

struct Where {
  std::vector<Url> urls;
  LinkOptions link;
  std::string words;
};

const Url* first_of(const std::vector<Url>& urls, std::string_view name) {
  const auto found =
      std::find_if(urls.begin(), urls.end(), [&](const Url& url) { return ComexLink::name_of(url) == name; });
  return found == urls.end() ? nullptr : &*found;
}

// Everything that is measured. The children of a peer end with it.
class Field {
 public:
  explicit Field(Figures& figures) : figures_(figures) {}

  // The order of the table. bare TCP is made first of all: it forks, and nobody may have threads by then.
  Expected<void> open(Expected<std::unique_ptr<Peer>> bare_tcp, const Where& where, const std::string& folder,
                      std::uint32_t set_pages, Steps& steps);

  [[nodiscard]] std::vector<std::unique_ptr<Peer>>& peers() { return peers_; }
  // Beside comex over RDMA; none: there is no such node, or no perftest.
  [[nodiscard]] Perftest* perftest() { return perftest_.get(); }
  [[nodiscard]] std::uint32_t set_pages() const { return set_pages_; }
  void keep_alive() {
    for (const auto& peer : peers_) peer->keep_alive();
  }

 private:
  // The set must be the same for all: it shrinks to what the smallest of the nodes has.
  Expected<std::unique_ptr<ComexLink>> open_link(const Where& where, std::string_view name);
  void add(std::string_view name, Expected<std::unique_ptr<Peer>> peer);
  void add_perftest(const Url& url, const std::string& folder);

  Figures& figures_;
  std::vector<std::unique_ptr<Peer>> peers_;
  std::unique_ptr<Perftest> perftest_;
  std::uint32_t set_pages_ = 0;
};

Expected<std::unique_ptr<ComexLink>> Field::open_link(const Where& where, std::string_view name) {
  const Url* url = first_of(where.urls, name);
  if (url == nullptr) {
    // Most machines have no RDMA, and nothing is missing there.
    if (name != kComexRdma) figures_.skipped.push_back({std::string(name), "no such node in --pool"});
    return std::unique_ptr<ComexLink>();
  }
  Expected<std::unique_ptr<ComexLink>> link = ComexLink::create(*url, where.link, set_pages_);
  if (link) set_pages_ = std::min(set_pages_, (*link)->pages());
  return link;
}

void Field::add(std::string_view name, Expected<std::unique_ptr<Peer>> peer) {
  if (!peer) {
    figures_.skipped.push_back({std::string(name), peer.error().message});
  } else if (*peer != nullptr) {
    figures_.systems.emplace_back((*peer)->name());
    peers_.push_back(*std::move(peer));
  }
}

void Field::add_perftest(const Url& url, const std::string& folder) {
  auto perftest = Perftest::create(url, folder, [this] { keep_alive(); });
  if (!perftest) {
    figures_.skipped.push_back({std::string(kPerftest), perftest.error().message});
    return;
  }
  figures_.systems.emplace_back(kPerftest);
  perftest_ = *std::move(perftest);
}

Expected<void> Field::open(Expected<std::unique_ptr<Peer>> bare_tcp, const Where& where, const std::string& folder,
                           std::uint32_t set_pages, Steps& steps) {
  set_pages_ = set_pages;
  Expected<std::unique_ptr<ComexLink>> shm = open_link(where, kComexShm);
  if (!shm) return shm.error();
  Expected<std::unique_ptr<ComexLink>> tcp = open_link(where, kComexTcp);
  if (!tcp) return tcp.error();
  Expected<std::unique_ptr<ComexLink>> rdma = open_link(where, kComexRdma);
  if (!rdma) return rdma.error();

  steps.stage("starting the peers");
  add(kMemcpy, Mapped::create(set_pages_));
  add(kComexShm, std::unique_ptr<Peer>(*std::move(shm)));
  add(kBareTcp, std::move(bare_tcp));
  add(kComexTcp, std::unique_ptr<Peer>(*std::move(tcp)));
  if (*rdma != nullptr) add_perftest(*first_of(where.urls, kComexRdma), folder);
  add(kComexRdma, std::unique_ptr<Peer>(*std::move(rdma)));
  add(kRedis, Redis::create(folder));
  add(kNbdkit, Nbdkit::create(folder, set_pages_));
  if (interrupted()) return interruption();

  steps.stage(fmt::format("writing {} to each", format_size(std::uint64_t{set_pages_} * kPageSize)));
  for (const auto& peer : peers_) {
    Expected<void> filled = fill(*peer, set_pages_);
    if (!filled) return filled.error();
    keep_alive();
  }
  return {};
}

Clock::duration slice_of(double seconds, std::size_t slices) {
  return std::chrono::duration_cast<Clock::duration>(
      std::chrono::duration<double>(seconds / static_cast<double>(slices)));
}

std::string_view verb(Direction direction) {
  return direction == Direction::read ? "reading" : "writing";
}

class Rounds {
 public:
  Rounds(Field& field, Figures& figures, Steps& steps, const PoolBenchOptions& options)
      : field_(field), figures_(figures), steps_(steps), rounds_(options.rounds) {
    const std::size_t turns = field.peers().size() * rounds_;
    const std::size_t latencies = turns * std::size(kLatencies);
    const std::size_t throughputs = turns * 2 * kMostThreads;
    latency_slice_ = slice_of(options.seconds * kLatencyShare, latencies);
    throughput_slice_ = slice_of(options.seconds * kLatencyShare, throughputs);
    figures.rounds = rounds_;
    figures.latency_slice = std::chrono::duration<double>(latency_slice_).count();
    figures.throughput_slice = std::chrono::duration<double>(throughput_slice_).count();
    std::size_t steps_to_come = latencies + throughputs;
    if (Perftest* const perftest = field.perftest()) {
      perftest_.emplace(*perftest, figures, latency_slice_, throughput_slice_);
      steps_to_come += rounds_ * PerftestTurns::kInRound;
    }
    steps.expect(steps_to_come);
  }

  // Within a round the systems take turns at each figure, so that what is compared was measured moments apart.
  Expected<void> run() {
    for (unsigned round = 1; round <= rounds_; ++round) {
      steps_.stage(fmt::format("round {} of {}", round, rounds_));
      for (const Latency& what : kLatencies) {
        if (Expected<void> done = latency(what, round); !done) return done;
      }
      for (const Direction direction : {Direction::read, Direction::write}) {
        for (unsigned threads = 1; threads <= kMostThreads; ++threads) {
          if (Expected<void> done = throughput(direction, threads, round); !done) return done;
        }
      }
    }
    return {};
  }

 private:
  Expected<void> latency(const Latency& what, unsigned round) {
    for (const auto& peer : field_.peers()) {
      steps_.step(fmt::format("round {} of {}: {} {} page{}, {}", round, rounds_, verb(what.direction), what.pages,
                              what.pages > 1 ? "s" : "", peer->name()));
      field_.keep_alive();
      const Expected<Summary> found = measure_latency(*peer, what, field_.set_pages(), latency_slice_, samples_);
      if (!found) return found.error();
      figures_.add(peer->name(), what, *found);
      if (perftest_ && peer->name() == kComexRdma && PerftestTurns::measures(what)) {
        steps_.step(fmt::format("round {} of {}: {} {} page{}, {}", round, rounds_, verb(what.direction), what.pages,
                                what.pages > 1 ? "s" : "", kPerftest));
        if (auto measured = perftest_->latency(what, *found); !measured) return measured;
      }
    }
    return {};
  }

  Expected<void> throughput(Direction direction, unsigned threads, unsigned round) {
    for (const auto& peer : field_.peers()) {
      steps_.step(fmt::format("round {} of {}: {} batches with {} thread{}, {}", round, rounds_, verb(direction),
                              threads, threads > 1 ? "s" : "", peer->name()));
      field_.keep_alive();
      const Expected<double> found =
          measure_throughput(*peer, direction, threads, field_.set_pages(), throughput_slice_);
      if (!found) return found.error();
      figures_.add(peer->name(), direction, threads, *found);
      if (perftest_ && peer->name() == kComexRdma && PerftestTurns::measures(threads)) {
        steps_.step(fmt::format("round {} of {}: {} batches, {}", round, rounds_, verb(direction), kPerftest));
        if (auto measured = perftest_->throughput(direction, *found); !measured) return measured;
      }
    }
    return {};
  }

  Field& field_;
  Figures& figures_;
  Steps& steps_;
  unsigned rounds_;
  std::optional<PerftestTurns> perftest_;
  Clock::duration latency_slice_{};
  Clock::duration throughput_slice_{};
  Samples samples_;
};

}  // namespace

Expected<Figures> bench_pool(const PoolBenchOptions& options, Steps& steps) {
  Figures figures;
  const Expected<TempFolder> folder = TempFolder::create();
  if (!folder) return folder.error();
  steps.stage("looking whether the machine is idle");
  figures.load_before = host_load(kLookAtLoad);
  Expected<std::unique_ptr<Peer>> bare_tcp = BareTcp::create();

  Where where{
      options.pool, options.link,
      fmt::format("{} memory node{} given with --pool", options.pool.size(), options.pool.size() > 1 ? "s" : "")};
  OwnNodes own;
  if (options.pool.empty()) {
    steps.stage("starting two memory nodes");
    Expected<OwnNodes> started = OwnNodes::start(folder->path(), 2, kOwnNodeMemory);
    if (!started) return started.error();
    own = *std::move(started);
    // One node for each medium: neither competes for the other's frames.
    where.urls = {own.nodes()[0].shm, own.nodes()[1].tcp};
    where.link.secret = own.secret();
    where.words = fmt::format("two memory nodes of {} on this machine", format_size(kOwnNodeMemory));
  }
  where.link.name = "comex bench";
  figures.nodes = where.words;

  {
    Field field(figures);
    Expected<void> opened = field.open(std::move(bare_tcp), where, folder->path(), options.set_pages, steps);
    if (!opened) return opened.error();
    figures.set_bytes = std::uint64_t{field.set_pages()} * kPageSize;
    Expected<void> measured = Rounds(field, figures, steps, options).run();
    if (!measured) return measured.error();
  }  // the frames go back, for the pool to take

  steps.stage("taking frames through the client");
  const Expected<Allocation> allocation = measure_allocation(where.urls, where.link);
  if (interrupted()) return interruption();
  if (allocation) {
    figures.allocation = *allocation;
  } else {
    figures.skipped.push_back({"allocation", allocation.error().message});
  }
  return figures;
}

}  // namespace comex::bench
