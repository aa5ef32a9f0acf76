#include "bench/prefetch/redis_client.h"

#include <fmt/format.h>
#include <hiredis/hiredis.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <memory>
#include <thread>

#include "base/clock.h"
#include "bench/prefetch/load_visits.h"

namespace comex::bench {

namespace {

constexpr Millis kStartsWithin{30'000};
constexpr std::uint64_t kFillAhead = 64;  // requests in one go
constexpr std::uint64_t kAskAhead = 16;
constexpr std::uint64_t kSeed = 1;

struct Closer {
  void operator()(redisContext* context) const { ::redisFree(context); }
  void operator()(redisReply* reply) const { ::freeReplyObject(reply); }
};
using Context = std::unique_ptr<redisContext, Closer>;
using Reply = std::unique_ptr<redisReply, Closer>;

// One half does not compress, the other does, as in the pages of the paging load.
void make_value(std::uint64_t key, std::string& value) {
  value.assign(kRedisValueBytes, static_cast<char>('a' + key % 26));
  for (std::size_t at = 0; at + 8 <= kRedisValueBytes / 2; at += 8) {
    const std::uint64_t word = mix(key * kRedisValueBytes + at);
    std::memcpy(value.data() + at, &word, sizeof word);
  }
}

Expected<Context> connect(const std::string& socket) {
  for (const Deadline deadline(kStartsWithin); !deadline.passed();) {
    Context context(::redisConnectUnix(socket.c_str()));
    if (context != nullptr && context->err == 0) return context;
    std::this_thread::sleep_for(Millis(5));
  }
  return Error{Errc::timeout, "redis-server did not answer"};
}

Expected<Reply> take_reply(redisContext& context) {
  void* raw = nullptr;
  if (::redisGetReply(&context, &raw) != REDIS_OK) {
    return Error{Errc::disconnected, fmt::format("redis-server went away: {}", context.errstr)};
  }
  return Reply(static_cast<redisReply*>(raw));
}

Expected<void> fill(redisContext& context, std::uint64_t keys) {
  std::string value;
  for (std::uint64_t first = 0; first < keys; first += kFillAhead) {
    const std::uint64_t end = std::min(first + kFillAhead, keys);
    for (std::uint64_t key = first; key < end; ++key) {
      make_value(key, value);
      ::redisAppendCommand(&context, "SET %llu %b", static_cast<unsigned long long>(key), value.data(), value.size());
    }
    for (std::uint64_t key = first; key < end; ++key) {
      const Expected<Reply> reply = take_reply(context);
      if (!reply) return reply.error();
      if ((*reply)->type != REDIS_REPLY_STATUS) return Error{Errc::io, "redis-server refused a value"};
    }
  }
  return {};
}

Expected<std::uint64_t> ask(redisContext& context, std::uint64_t keys) {
  ZipfVisits visits(keys, kSeed);
  std::array<std::uint64_t, kAskAhead> asked{};
  std::string wanted;
  std::uint64_t result = 0;
  for (std::uint64_t done = 0; done < keys; done += kAskAhead) {
    for (std::uint64_t& key : asked) {
      key = visits.next();
      ::redisAppendCommand(&context, "GET %llu", static_cast<unsigned long long>(key));
    }
    for (const std::uint64_t key : asked) {
      const Expected<Reply> reply = take_reply(context);
      if (!reply) return reply.error();
      make_value(key, wanted);
      const redisReply& found = **reply;
      if (found.type != REDIS_REPLY_STRING || std::string_view(found.str, found.len) != wanted) {
        return Error{Errc::io, fmt::format("the value of key {} is wrong", key)};
      }
      result = mix(result + key);
    }
  }
  return result;
}

Expected<RedisAsked> fill_and_ask(redisContext& context, std::uint64_t keys) {
  if (Expected<void> filled = fill(context, keys); !filled) return filled.error();
  const auto begin = Clock::now();
  const Expected<std::uint64_t> result = ask(context, keys);
  if (!result) return result.error();
  return RedisAsked{std::chrono::duration<double>(Clock::now() - begin).count(), *result};
}

}  // namespace

Expected<RedisAsked> ask_redis(const std::string& socket, std::uint64_t keys) {
  const Expected<Context> context = connect(socket);
  if (!context) return context.error();
  Expected<RedisAsked> asked = fill_and_ask(**context, keys);
  // A connection with replies still to come is of no use for this.
  const Context last(::redisConnectUnix(socket.c_str()));
  if (last != nullptr && last->err == 0) {
    const Reply none(static_cast<redisReply*>(::redisCommand(last.get(), "SHUTDOWN NOSAVE")));
  }
  return asked;
}

}  // namespace comex::bench
