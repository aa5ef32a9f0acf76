// perftest (ib_read_lat, ib_read_bw, ib_write_bw): what the RDMA device takes for itself, by the way that a link to the
// node goes. It has a measuring loop of its own, so it is not a Peer: it is told how many operations to measure, and
// each time is a run of it.
//
// If the node is on this machine, the other end is a child of ours. Otherwise somebody must have started it there, and
// start it again each time it ends, for it serves once: docs/rdma.md, "What to expect".
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "bench/child.h"
#include "bench/measure.h"
#include "fabric/rdma_way.h"

namespace comex::bench {

// Not thread-safe.
class Perftest {
 public:
  // Where the other ends listen at a node on another machine. The first is that of perftest, as it comes.
  static constexpr std::uint16_t kReadLatencyPort = 18515;
  static constexpr std::uint16_t kReadBandwidthPort = 18516;
  static constexpr std::uint16_t kWriteBandwidthPort = 18517;

  // `meanwhile` is called again and again while a program runs. Errc::unsupported when perftest is not installed.
  static Expected<std::unique_ptr<Perftest>> create(const Url& url, const std::string& folder,
                                                    std::function<void()> meanwhile);

  // One read of so many contiguous pages after the other.
  Expected<Summary> read_latency(std::uint32_t pages, unsigned reads);
  // As one thread of the others does: batches of kBatchPages, kBatchesInFlight at a time. Bytes per second.
  Expected<double> throughput(Direction direction, unsigned batches);

 private:
  struct Program {
    std::string_view name;
    std::uint16_t port;  // at another machine
  };
  Perftest(std::string host, std::string folder, RdmaWay here, std::optional<RdmaWay> there,
           std::function<void()> meanwhile)
      : host_(std::move(host)),
        folder_(std::move(folder)),
        here_(std::move(here)),
        there_(std::move(there)),
        meanwhile_(std::move(meanwhile)) {}

  // Runs it until it has figures, which `parse` finds in what it prints, or there is no hope.
  template <typename Figures>
  Expected<Figures> run(const Program& program, const std::vector<std::string>& flags,
                        Expected<Figures> (*parse)(const std::string&));
  // What one run prints.
  Expected<std::string> run_once(const Program& program, std::uint16_t port, const std::vector<std::string>& flags);

  std::string host_;
  std::string folder_;
  RdmaWay here_;
  std::optional<RdmaWay> there_;  // of this machine, too
  std::function<void()> meanwhile_;
};

}  // namespace comex::bench
