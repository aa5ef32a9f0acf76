#include "cli/serve.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "base/progress.h"
#include "base/units.h"
#include "cli/config_flags.h"
#include "cli/report.h"
#include "cli/serve_plan.h"
#include "cli/service_manager.h"
#include "node/host_memory.h"
#include "node/pressure.h"
#include "node/return_watch.h"
#include "node/server.h"

namespace comex {
namespace {

constexpr Millis kLookEvery{1'000};  // at the host's memory

// SIGTERM, SIGINT and SIGHUP, taken by sigwait instead of a handler. Blocked in every thread: made before any other.
class Signals {
 public:
  Signals() {
    sigemptyset(&set_);
    for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&set_, signal);
    pthread_sigmask(SIG_BLOCK, &set_, nullptr);
    // A client that goes away while we write to it is an error of that write, not the end of us.
    ::signal(SIGPIPE, SIG_IGN);
  }

  // The signal that came, or 0 if none does within `patience`.
  int wait_for(Millis patience) {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(patience);
    const timespec limit{.tv_sec = seconds.count(), .tv_nsec = Nanos(patience - seconds).count()};
    const int signal = sigtimedwait(&set_, nullptr, &limit);
    return signal > 0 ? signal : 0;
  }

 private:
  sigset_t set_{};
};

// The folder of the default socket of root. /run is empty after a boot; the unit file makes it, a shell does not.
Expected<void> make_system_socket_dir(const std::string& socket) {
  const std::string folder(kSystemSocketDir);
  if (!socket.starts_with(folder + "/")) return {};
  if (::mkdir(folder.c_str(), 0755) != 0 && errno != EEXIST) {
    return system_error(fmt::format("cannot make the folder {} for the socket", folder));
  }
  return {};
}

// Whether the arena has huge pages, as the kernel tells: asked for is not given.
bool has_huge_pages() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("HugetlbPages:")) return line.find_first_of("123456789") != std::string::npos;
  }
  return false;
}

std::string ready_line(const Server& server) {
  std::vector<std::string> urls;
  if (const auto url = server.tcp_url()) urls.push_back(url->text());
  if (const auto url = server.rdma_url()) urls.push_back(url->text());
  if (const auto url = server.unix_url()) urls.push_back(url->text());
  const auto status = server.status();
  return fmt::format("lending {} as node {} on {} (huge pages: {})",
                     format_size(std::uint64_t{status.frames} << kPageShift), status.nid.value,
                     fmt::join(urls, " and "), has_huge_pages() ? "yes" : "no");
}

// Starting takes a second for every 2 GiB, which must not keep anybody from stopping it: nothing then if a signal came.
std::optional<Expected<std::unique_ptr<Server>>> start(const ServerConfig& config, Signals& signals) {
  std::packaged_task<Expected<std::unique_ptr<Server>>()> task([&config] { return Server::start(config); });
  auto started = task.get_future();
  std::thread starter(std::move(task));
  while (started.wait_for(Millis(0)) != std::future_status::ready) {
    if (signals.wait_for(Millis(10)) != 0) {
      starter.detach();
      return std::nullopt;
    }
  }
  starter.join();
  return started.get();
}

using Reload = std::function<Expected<Config>()>;

// SIGHUP to one who was started from a terminal says that the terminal is gone; to others, that the configuration has
// changed.
bool has_terminal() {
  return Fd(::open("/dev/tty", O_RDWR | O_CLOEXEC)).get() >= 0;
}

// What can change while it serves is how much is lent.
void reload_memory(Server& server, const Reload& reload) {
  const auto config = reload();
  if (!config) return spdlog::error("the configuration stays as it was: {}", config.error().message);
  const auto memory = config->serve.memory;
  const std::uint64_t most = std::uint64_t{server.status().frames} << kPageShift;
  if (!memory) return spdlog::info("memory = \"auto\": what is lent stays as it was");
  if (*memory > most) {
    spdlog::warn("memory = {} is more than it began with; {} is the most until it is started again",
                 format_size(*memory), format_size(most));
  }
  server.limit(LendLimit::configuration, *memory);
}

// Gives memory back to a host that runs short of it, and says so if clients keep it.
class HostWatch {
 public:
  explicit HostWatch(std::uint64_t reserve) : pressure_({.reserve = reserve}) {}

  void look(Server& server) {
    const auto host = read_host_memory();
    if (!host) return;
    const auto status = server.status();
    const std::uint64_t limit =
        pressure_.limit(*host, read_stalls(), bytes(status.present), bytes(status.frames), Clock::now());
    server.limit(LendLimit::pressure, limit == bytes(status.frames) ? UINT64_MAX : limit);
    const std::uint32_t beyond = status.present - std::min(status.present, status.goal);
    if (const auto told = returns_.look(bytes(beyond), status.client_count, Clock::now())) spdlog::warn("{}", *told);
  }

 private:
  static std::uint64_t bytes(std::uint32_t frames) { return std::uint64_t{frames} << kPageShift; }
  Pressure pressure_;
  ReturnWatch returns_;
};

// Until it is told to stop: the signal.
int attend(Server& server, Signals& signals, std::uint64_t reserve, const Reload& reload) {
  const bool terminal = has_terminal();
  HostWatch watch(reserve);
  for (;;) {
    const int signal = signals.wait_for(kLookEvery);
    if (signal == SIGHUP && !terminal) {
      reload_memory(server, reload);
    } else if (signal != 0) {
      return signal;
    }
    watch.look(server);
  }
}

int serve(const ServeSettings& settings, const Reload& reload) {
  Signals signals;
  auto config = plan_serve(settings, ServeHost::here());
  if (!config) return fail(config.error().message, kExitBadUsage);
  if (!settings.memory) {
    auto memory = read_host_memory();
    if (!memory) return fail(memory.error());
    if (!config->huge_pages) memory->huge_free = 0;
    config->memory = spare_memory(*memory);
    if (config->memory == 0) return fail("this host has no memory to spare; give --memory SIZE to insist", kExitFailed);
  }
  if (auto made = make_system_socket_dir(config->socket); !made) return fail(made.error());

  spdlog::debug("taking {}", format_size(config->memory));
  // Not finished with a line of its own: the one that says we are ready follows.
  const auto progress = std::make_shared<Progress>("taking memory", config->memory);
  config->progress = [progress](std::uint64_t bytes) { progress->advance(bytes); };
  auto started = start(*config, signals);
  // Half a server cannot be taken apart; the kernel takes back what it has, and the next one replaces its socket.
  if (!started) std::_Exit(0);
  if (!*started) return fail(started->error());
  const std::unique_ptr<Server> server = **std::move(started);
  const std::string line = ready_line(*server);
  fmt::print("comex: {}\n", line);
  std::fflush(stdout);
  tell_service_manager("READY=1\nSTATUS=" + line);

  const auto host = read_host_memory();
  const int signal = attend(*server, signals, settings.reserve.value_or(host ? host_reserve(*host) : 0), reload);
  tell_service_manager("STOPPING=1");
  spdlog::info("stopping: {}", ::strsignal(signal));
  return 0;  // which ends the server
}

}  // namespace

void add_serve(CLI::App& app, int& exit_code) {
  CLI::App& command = *app.add_subcommand("serve", "Lend this machine's memory to the pool");
  auto flags = std::make_shared<ConfigFlags>();
  flags->add(command, "--memory", "serve.memory", "SIZE|auto", "How much to lend (4G); auto: what the host can spare");
  flags->add(command, "--reserve", "serve.reserve", "SIZE|auto",
             "Give memory back when the host has less than this available (auto: a tenth, at least 512M)");
  flags->add(command, "--listen", "serve.listen", "HOST:PORT",
             "TCP address for clients, or none (127.0.0.1:7171; with a secret 0.0.0.0:7171)");
  flags->add(command, "--rdma", "serve.rdma", "HOST:PORT", "RDMA address for clients (none)");
  flags->add(command, "--socket", "serve.socket", "PATH",
             "Unix socket for programs on this machine, or none (/run/comex/comex.sock or in $XDG_RUNTIME_DIR)");
  flags->add(command, "--socket-mode", "serve.socket_mode", "MODE", "Permissions of the Unix socket (0600)");
  flags->add(command, "--secret-file", "serve.secret_file", "FILE",
             "Clients on TCP and RDMA must know the secret in this file");
  flags->add(command, "--tls-cert", "serve.tls_cert", "FILE", "TLS on TCP with this certificate (PEM)");
  flags->add(command, "--tls-key", "serve.tls_key", "FILE", "... and its key");
  flags->add(command, "--tls-client-ca", "serve.tls_client_ca", "FILE",
             "Clients must have a certificate signed by this authority");
  flags->add(command, "--lease", "serve.lease", "TIME", "A client silent for longer loses its memory (10s)");
  flags->add(command, "--nid", "serve.nid", "N", "This node's id, 1 to 65535 (from the machine id)");
  flags->add_switch(command, "--no-lock", "serve.lock", "false", "Let the kernel swap the lent memory out");
  flags->add_switch(command, "--no-huge-pages", "serve.huge_pages", "false", "Do not use huge pages");
  command.callback([flags, &exit_code] {
    const auto config = flags->load();
    exit_code = config ? serve(config->serve, [flags] { return flags->load(); }) : fail(config.error());
  });
}

}  // namespace comex
