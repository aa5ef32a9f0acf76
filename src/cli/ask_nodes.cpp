#include "cli/ask_nodes.h"

#include <algorithm>
#include <thread>
#include <utility>

namespace comex {
namespace {

// The least of a few calls is the round trip; the rest of them shows the scheduler, not the network.
constexpr int kRoundTrips = 5;

void ask(NodeReport& report, const LinkOptions& options) {
  auto link = connect(report.url, options);
  if (!link) {
    report.error = link.error().message;
    return;
  }
  report.boot_id = (*link)->session().boot_id;
  for (int i = 0; i < kRoundTrips; ++i) {
    const auto start = Clock::now();
    auto status = (*link)->status();
    const Nanos took = Clock::now() - start;
    if (!status) {
      report.status.reset();
      report.error = status.error().message;
      return;
    }
    report.round_trip = std::min(report.round_trip, took);
    report.status = *std::move(status);
  }
}

}  // namespace

std::vector<NodeReport> ask_nodes(const std::vector<Url>& urls, const LinkOptions& options) {
  std::vector<NodeReport> reports(urls.size());
  std::vector<std::jthread> threads;
  for (std::size_t i = 0; i < urls.size(); ++i) {
    reports[i].url = urls[i];
    threads.emplace_back([&report = reports[i], &options] { ask(report, options); });
  }
  threads.clear();  // joins
  return reports;
}

}  // namespace comex
