// redis: a page is a 4 KiB value, its number the key. hiredis, synchronous, over TCP on loopback; several pages are a
// pipeline. The server is our child, without persistence.
#pragma once

#include <string>

#include "bench/child.h"
#include "bench/peers/peer.h"

struct redisContext;

namespace comex::bench {

class RedisConnection {
 public:
  static Expected<RedisConnection> open(std::uint16_t port);
  // Sends the commands for these pages.
  Errc ask(Direction direction, std::uint32_t first, std::uint32_t count, const std::byte* from);
  // Takes their replies.
  Errc take(Direction direction, std::uint32_t count, std::byte* into);

 private:
  struct Closer {
    void operator()(redisContext* context) const;
  };
  explicit RedisConnection(std::unique_ptr<redisContext, Closer> context) : context_(std::move(context)) {}
  std::unique_ptr<redisContext, Closer> context_;
};

class Redis : public Peer {
 public:
  // Errc::unsupported when there is no redis-server in PATH.
  static Expected<std::unique_ptr<Peer>> create(const std::string& folder);

  [[nodiscard]] std::string_view name() const override { return kRedis; }
  Errc read(std::uint32_t first, std::uint32_t count, std::byte* into) override;
  Errc write(std::uint32_t first, std::uint32_t count, std::byte* from) override;
  Expected<std::unique_ptr<Batches>> batches(Direction direction) override;

 private:
  Redis(Child server, std::uint16_t port, RedisConnection connection);
  Child server_;
  std::uint16_t port_;
  RedisConnection connection_;
};

}  // namespace comex::bench
