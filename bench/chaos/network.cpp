#include "bench/chaos/network.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "bench/child.h"

namespace comex::bench {

namespace {

constexpr const char* kName = "comex-chaos-";
constexpr const char* kHub = "hub";
constexpr Millis kToolPatience{10'000};
constexpr const char* kSpaces = "/run/netns";  // where `ip netns` keeps them

// Also when the user wants us to end: what was set up has to go.
Expected<void> run_tool(const std::vector<std::string>& command) {
  const std::string line = fmt::format("{}", fmt::join(command, " "));
  Expected<Child> tool = Child::spawn(command, "/dev/null");
  if (!tool) return tool.error();
  const Deadline deadline(kToolPatience);
  while (tool->running()) {
    if (deadline.passed()) return Error{Errc::timeout, fmt::format("`{}` does not end", line)};
    std::this_thread::sleep_for(Millis(1));
  }
  if (tool->wait_status() == 0) return {};
  return Error{Errc::unsupported, fmt::format("`{}` failed: this kernel may lack what it needs", line)};
}

Expected<void> ip(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "ip");
  return run_tool(arguments);
}

// The namespaces of runs that are no more.
void remove_leftovers() {
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(kSpaces, none)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with(kName)) continue;
    const pid_t pid = std::atoi(name.c_str() + std::string_view(kName).size());
    if (pid > 0 && ::kill(pid, 0) == 0) continue;
    (void)ip({"netns", "del", name});
  }
}

std::string wire(unsigned place) {
  return fmt::format("w{}", place);
}

}  // namespace

ChaosNetwork::ChaosNetwork(unsigned nodes) : prefix_(fmt::format("{}{}-", kName, ::getpid())), nodes_(nodes) {}

ChaosNetwork::ChaosNetwork(ChaosNetwork&& other) noexcept
    : prefix_(std::move(other.prefix_)), nodes_(std::exchange(other.nodes_, 0)) {}

ChaosNetwork::~ChaosNetwork() {
  if (nodes_ == 0) return;
  for (unsigned place = 0; place <= nodes_; ++place) (void)ip({"netns", "del", space(std::to_string(place))});
  (void)ip({"netns", "del", space(kHub)});
}

Expected<ChaosNetwork> ChaosNetwork::create(unsigned nodes) {
  if (::geteuid() != 0) return Error{Errc::unsupported, "network namespaces need root"};
  for (const char* const tool : {"ip", "tc"}) {
    if (!program_exists(tool)) {
      return Error{Errc::unsupported, fmt::format("{} is not installed (apt install iproute2)", tool)};
    }
  }
  remove_leftovers();
  ChaosNetwork network(nodes);
  if (Expected<void> built = network.build(); !built) return built.error();
  return network;
}

Expected<void> ChaosNetwork::build() {
  const std::string hub = space(kHub);
  std::vector<std::vector<std::string>> steps{{"netns", "add", hub},
                                              {"-n", hub, "link", "add", "bridge", "type", "bridge"},
                                              {"-n", hub, "link", "set", "bridge", "up"}};
  for (unsigned place = 0; place <= nodes_; ++place) {
    const std::string own = space(std::to_string(place));
    steps.push_back({"netns", "add", own});
    steps.push_back({"-n", hub, "link", "add", wire(place), "type", "veth", "peer", "name", "eth0", "netns", own});
    steps.push_back({"-n", hub, "link", "set", wire(place), "master", "bridge", "up"});
    steps.push_back({"-n", own, "addr", "add", address(place) + "/24", "dev", "eth0"});
    steps.push_back({"-n", own, "link", "set", "eth0", "up"});
    steps.push_back({"-n", own, "link", "set", "lo", "up"});
  }
  for (const auto& step : steps) {
    if (Expected<void> done = ip(step); !done) return done;
  }
  return {};
}

std::vector<std::string> ChaosNetwork::inside(unsigned place) const {
  return {"ip", "netns", "exec", space(std::to_string(place))};
}

std::string ChaosNetwork::address(unsigned node) {
  return fmt::format("10.77.0.{}", node + 1);
}

Expected<void> ChaosNetwork::pull(unsigned node, bool out) {
  return ip({"-n", space(kHub), "link", "set", wire(node), out ? "down" : "up"});
}

Expected<void> ChaosNetwork::slow_down(unsigned node, bool slow) {
  for (const auto& [where, device] : {std::pair{space(kHub), wire(node)}, {space(std::to_string(node)), "eth0"}}) {
    std::vector<std::string> command{"tc", "-n", where, "qdisc", slow ? "add" : "del", "dev", device, "root"};
    if (slow) command.insert(command.end(), {"tbf", "rate", "40mbit", "burst", "64kb", "latency", "400ms"});
    if (Expected<void> done = run_tool(command); !done) return done;
  }
  return {};
}

}  // namespace comex::bench
