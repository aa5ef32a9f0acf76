#include "bench/running/redis_load.h"

#include <fmt/format.h>

#include <charconv>
#include <thread>

#include "base/clock.h"
#include "bench/interrupt.h"
#include "bench/paging/program.h"

namespace comex::bench {

Expected<RedisServers> RedisServers::start(const std::string& folder) {
  for (const char* const program : {"redis-server", "redis-benchmark", "redis-cli"}) {
    if (!program_exists(program)) {
      return Error{Errc::unsupported, fmt::format("{} is not installed (apt install redis)", program)};
    }
  }
  RedisServers all;
  all.log_ = folder + "/redis-benchmark.log";
  for (const Mode mode : kModes) {
    Server& server = all.servers_[static_cast<std::size_t>(mode)];
    const Expected<std::uint16_t> port = free_port();
    if (!port) return port.error();
    const std::string log = fmt::format("{}/redis-{}.log", folder, to_string(mode));
    const std::string number = std::to_string(*port);
    Expected<Child> child =
        Child::spawn(in_mode(mode, {"redis-server", "--port", number, "--bind", "127.0.0.1", "--save", "",
                                    "--appendonly", "no", "--daemonize", "no", "--dir", folder}),
                     log);
    if (!child) return child.error();
    server = {*std::move(child), *port};
    const Deadline deadline(Millis(10'000));
    while (!run_program({"redis-cli", "-p", number, "ping"}, {.log = all.log_})) {
      if (interrupted()) return interruption();
      if (!server.child.running() || deadline.passed()) {
        return Error{Errc::io, "redis-server did not start: " + last_line(log)};
      }
      std::this_thread::sleep_for(Millis(20));
    }
  }
  return all;
}

Expected<double> RedisServers::ask(Mode mode, std::string_view kind) {
  const std::string port = std::to_string(servers_[static_cast<std::size_t>(mode)].port);
  const Expected<std::string> output = run_program(
      {"redis-benchmark", "-p", port, "-t", std::string(kind), "-n", "25000", "-r", "100000", "-d", "100", "--csv"},
      {.log = log_});
  return output ? parse_redis_rate(*output) : output.error();
}

Expected<double> parse_redis_rate(const std::string& output) {
  const std::size_t line = output.find('\n');
  const std::size_t quote = line == std::string::npos ? line : output.find(",\"", line);
  double rate = 0;
  if (quote != std::string::npos) {
    const char* const text = output.data() + quote + 2;
    const auto [end, error] = std::from_chars(text, output.data() + output.size(), rate);
    if (error == std::errc() && end != text && rate > 0) return rate;
  }
  return Error{Errc::io, "redis-benchmark printed '" + output + "'"};
}

}  // namespace comex::bench
