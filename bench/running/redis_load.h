// redis-server in every mode, under redis-benchmark. Not thread-safe.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>

#include "bench/child.h"
#include "bench/running/workload.h"

namespace comex::bench {

// One for each mode, without persistence; they end with this.
class RedisServers {
 public:
  // Errc::unsupported when redis is not installed.
  static Expected<RedisServers> start(const std::string& folder);
  // Requests a second of one kind ("set", "get").
  Expected<double> ask(Mode mode, std::string_view kind);

 private:
  struct Server {
    Child child;
    std::uint16_t port = 0;
  };
  std::array<Server, kModes.size()> servers_;
  std::string log_;
};

class RedisLoad : public Workload {
 public:
  RedisLoad(std::string_view name, std::string_view kind, std::shared_ptr<RedisServers> servers)
      : name_(name), kind_(kind), servers_(std::move(servers)) {}
  [[nodiscard]] std::string_view name() const override { return name_; }
  [[nodiscard]] std::string_view unit() const override { return "/s"; }
  [[nodiscard]] unsigned turns() const override { return 16; }  // each is 20 % off now and then, in all modes
  Expected<double> measure(Mode mode) override { return servers_->ask(mode, kind_); }

 private:
  std::string_view name_;
  std::string_view kind_;
  std::shared_ptr<RedisServers> servers_;
};

// The rate in the CSV that redis-benchmark prints: a line of names, then "SET","90000.00",...
Expected<double> parse_redis_rate(const std::string& output);

}  // namespace comex::bench
