#include "bench/peers/redis.h"

#include <hiredis/hiredis.h>

#include <array>
#include <charconv>
#include <cstring>
#include <thread>

#include "bench/interrupt.h"

namespace comex::bench {

namespace {

class Pipeline : public Batches {
 public:
  Pipeline(RedisConnection connection, Direction direction)
      : connection_(std::move(connection)), direction_(direction) {}
  Errc start(unsigned slot, std::uint32_t first, std::byte* local) override {
    local_[slot] = local;
    return connection_.ask(direction_, first, kBatchPages, local);
  }
  Errc finish(unsigned slot) override { return connection_.take(direction_, kBatchPages, local_[slot]); }

 private:
  RedisConnection connection_;
  Direction direction_;
  std::array<std::byte*, kBatchesInFlight> local_{};
};

}  // namespace

void RedisConnection::Closer::operator()(redisContext* context) const {
  ::redisFree(context);
}

Expected<RedisConnection> RedisConnection::open(std::uint16_t port) {
  std::unique_ptr<redisContext, Closer> context(::redisConnectWithTimeout("127.0.0.1", port, timeval{2, 0}));
  if (context == nullptr || context->err != 0) {
    return Error{Errc::disconnected, "cannot connect to redis on port " + std::to_string(port)};
  }
  ::redisSetTimeout(context.get(), timeval{5, 0});
  return RedisConnection(std::move(context));
}

Errc RedisConnection::ask(Direction direction, std::uint32_t first, std::uint32_t count, const std::byte* from) {
  for (std::uint32_t i = 0; i < count; ++i) {
    std::array<char, 16> key{};
    const char* end = std::to_chars(key.data(), key.data() + key.size(), first + i).ptr;
    const std::size_t key_bytes = static_cast<std::size_t>(end - key.data());
    std::array<const char*, 3> words{direction == Direction::read ? "GET" : "SET", key.data(), nullptr};
    std::array<std::size_t, 3> lengths{3, key_bytes, kPageSize};
    if (direction == Direction::write) words[2] = reinterpret_cast<const char*>(from + std::size_t{i} * kPageSize);
    const int arguments = direction == Direction::read ? 2 : 3;
    if (::redisAppendCommandArgv(context_.get(), arguments, words.data(), lengths.data()) != REDIS_OK) {
      return Errc::disconnected;
    }
  }
  for (int all_sent = 0; all_sent == 0;) {
    if (::redisBufferWrite(context_.get(), &all_sent) != REDIS_OK) return Errc::disconnected;
  }
  return Errc::ok;
}

Errc RedisConnection::take(Direction direction, std::uint32_t count, std::byte* into) {
  Errc result = Errc::ok;
  for (std::uint32_t i = 0; i < count; ++i) {
    void* raw = nullptr;
    if (::redisGetReply(context_.get(), &raw) != REDIS_OK) return Errc::disconnected;
    const auto* reply = static_cast<const redisReply*>(raw);
    if (direction == Direction::write) {
      if (reply->type != REDIS_REPLY_STATUS) result = Errc::io;
    } else if (reply->type == REDIS_REPLY_STRING && static_cast<std::size_t>(reply->len) == kPageSize) {
      std::memcpy(into + std::size_t{i} * kPageSize, reply->str, kPageSize);
    } else {
      result = Errc::io;
    }
    ::freeReplyObject(raw);
  }
  return result;
}

Redis::Redis(Child server, std::uint16_t port, RedisConnection connection)
    : server_(std::move(server)), port_(port), connection_(std::move(connection)) {}

Expected<std::unique_ptr<Peer>> Redis::create(const std::string& folder) {
  if (!program_exists("redis-server")) {
    return Error{Errc::unsupported, "redis-server is not installed (apt install redis-server)"};
  }
  const std::string log = folder + "/redis.log";
  constexpr int kTries = 3;  // the port can be taken between finding it free and redis binding it
  for (int i = 0; i < kTries; ++i) {
    const Expected<std::uint16_t> port = free_port();
    if (!port) return port.error();
    Expected<Child> server = Child::spawn({"redis-server", "--port", std::to_string(*port), "--bind", "127.0.0.1",
                                           "--save", "", "--appendonly", "no", "--daemonize", "no", "--dir", folder},
                                          log);
    if (!server) return server.error();
    for (const Deadline ready(Millis(5000)); server->running() && !ready.passed();) {
      if (interrupted()) return interruption();
      Expected<RedisConnection> connection = RedisConnection::open(*port);
      if (connection) {
        return std::unique_ptr<Peer>(new Redis(*std::move(server), *port, *std::move(connection)));
      }
      std::this_thread::sleep_for(Millis(10));
    }
  }
  return Error{Errc::io, "redis-server did not start: " + last_line(log)};
}

Errc Redis::read(std::uint32_t first, std::uint32_t count, std::byte* into) {
  const Errc asked = connection_.ask(Direction::read, first, count, nullptr);
  return asked != Errc::ok ? asked : connection_.take(Direction::read, count, into);
}

Errc Redis::write(std::uint32_t first, std::uint32_t count, std::byte* from) {
  const Errc asked = connection_.ask(Direction::write, first, count, from);
  return asked != Errc::ok ? asked : connection_.take(Direction::write, count, nullptr);
}

Expected<std::unique_ptr<Batches>> Redis::batches(Direction direction) {
  Expected<RedisConnection> connection = RedisConnection::open(port_);
  if (!connection) return connection.error();
  return std::unique_ptr<Batches>(std::make_unique<Pipeline>(*std::move(connection), direction));
}

}  // namespace comex::bench
