#include "bench/peers/perftest.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <sstream>
#include <thread>

#include "base/read_file.h"
#include "bench/interrupt.h"
#include "bench/peers/perftest_output.h"

namespace comex::bench {

namespace {

constexpr Millis kLongestRun{60'000};  // beyond it, something is stuck
// For the other end to be there: one that has to begin, emulated perhaps, and one that begins again.
constexpr Millis kPatienceHere{20'000};
constexpr Millis kPatienceThere{5'000};
constexpr Millis kBetweenTries{200};
constexpr Millis kLook{10};  // seldom enough not to be in the way of what is measured

std::vector<std::string> command(std::string_view program, const RdmaWay& way, std::uint16_t port,
                                 const std::vector<std::string>& flags) {
  // -F: whether the processor changes its pace is for others to say.
  std::vector<std::string> words{std::string(program), "-F", "-d", way.device, "-i", std::to_string(way.port), "-p",
                                 std::to_string(port)};
  if (way.gid) words.insert(words.end(), {"-x", std::to_string(*way.gid)});
  words.insert(words.end(), flags.begin(), flags.end());
  return words;
}

// The last line that is more than a rule or a row of figures.
std::string last_words(const std::string& output) {
  std::istringstream lines(output);
  std::string last;
  for (std::string line; std::getline(lines, line);) {
    if (std::any_of(line.begin(), line.end(), [](unsigned char c) { return std::isalpha(c) != 0; })) last = line;
  }
  const std::size_t first = last.find_first_not_of(' ');
  return first == std::string::npos ? "nothing" : last.substr(first);
}

std::string bytes_of(std::uint32_t pages) {
  return std::to_string(std::size_t{pages} * kPageSize);
}

}  // namespace

Expected<std::unique_ptr<Perftest>> Perftest::create(const Url& url, const std::string& folder,
                                                     std::function<void()> meanwhile) {
  for (const char* program : {"ib_read_lat", "ib_read_bw", "ib_write_bw"}) {
    if (!program_exists(program)) {
      return Error{Errc::unsupported, fmt::format("{} is not installed (apt install perftest)", program)};
    }
  }
  Expected<RdmaWay> here = rdma_way_to(url);
  if (!here) return std::move(here).error();
  Expected<std::optional<RdmaWay>> there = rdma_way_at(url);
  if (!there) return std::move(there).error();
  return std::unique_ptr<Perftest>(
      new Perftest(url.host, folder, *std::move(here), *std::move(there), std::move(meanwhile)));
}

Expected<Summary> Perftest::read_latency(std::uint32_t pages, unsigned reads) {
  return run({"ib_read_lat", kReadLatencyPort}, {"-s", bytes_of(pages), "-n", std::to_string(reads)},
             parse_perftest_latency);
}

Expected<double> Perftest::throughput(Direction direction, unsigned batches) {
  const Program program = direction == Direction::read ? Program{"ib_read_bw", kReadBandwidthPort}
                                                       : Program{"ib_write_bw", kWriteBandwidthPort};
  // -N: without looking at the clock for each batch.
  return run(program,
             {"-N", "-s", bytes_of(kBatchPages), "-t", std::to_string(kBatchesInFlight), "-n", std::to_string(batches)},
             parse_perftest_bandwidth);
}

template <typename Figures>
Expected<Figures> Perftest::run(const Program& program, const std::vector<std::string>& flags,
                                Expected<Figures> (*parse)(const std::string&)) {
  Child server;
  std::uint16_t port = program.port;
  for (const Deadline patience(there_ ? kPatienceHere : kPatienceThere);;) {
    if (there_ && !server.running()) {
      const Expected<std::uint16_t> free = free_port();
      if (!free) return free.error();
      port = *free;
      Expected<Child> started =
          Child::spawn(command(program.name, *there_, port, flags), fmt::format("{}/{}.server", folder_, program.name));
      if (!started) return started.error();
      server = *std::move(started);
    }
    const Expected<std::string> printed = run_once(program, port, flags);
    Expected<Figures> found = printed ? parse(*printed) : printed.error();
    if (!found && printed) found = Error{found.error().code, found.error().message + ": " + last_words(*printed)};
    if (found) return found;
    if (interrupted()) return interruption();
    if (patience.passed()) {
      std::string why = fmt::format("{} {}:{}: {}", program.name, host_, port, found.error().message);
      if (!there_) why += "; is one running there (docs/rdma.md)?";
      return Error{found.error().code, why};
    }
    std::this_thread::sleep_for(kBetweenTries);
  }
}

Expected<std::string> Perftest::run_once(const Program& program, std::uint16_t port,
                                         const std::vector<std::string>& flags) {
  const std::string log = fmt::format("{}/{}.client", folder_, program.name);
  std::error_code none;
  std::filesystem::remove(log, none);
  std::vector<std::string> words = command(program.name, here_, port, flags);
  words.push_back(host_);
  Expected<Child> client = Child::spawn(words, log);
  if (!client) return client.error();
  for (const Deadline longest(kLongestRun); client->running();) {
    if (interrupted()) return interruption();
    if (longest.passed()) return Error{Errc::timeout, "it did not end"};
    meanwhile_();
    std::this_thread::sleep_for(kLook);
  }
  if (client->wait_status() != 0) return Error{Errc::io, last_line(log)};
  return read_file(log).value_or("");
}

}  // namespace comex::bench
