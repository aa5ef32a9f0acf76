#include "fabric/link.h"

#include <algorithm>
#include <atomic>

#include "wire/auth.h"

namespace comex {
namespace {

template <typename T>
Expected<T> decoded(Expected<std::vector<std::byte>> reply) {
  if (!reply) return std::move(reply).error();
  auto message = wire::decode<T>(*reply);
  if (!message) return Error{Errc::version, "the node's reply is malformed"};
  return *std::move(message);
}

std::uint64_t next_number() {
  static std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

}  // namespace

Link::Link() : number_(next_number()) {}

Expected<wire::GrantReply> Link::grant(std::uint32_t frames, unsigned min_order) {
  const wire::Grant request{frames, static_cast<std::uint8_t>(min_order)};
  const std::lock_guard lock(holding_mutex_);
  auto reply = decoded<wire::GrantReply>(call(wire::Type::grant, wire::encode(request)));
  if (!reply) return reply;
  if (auto reached = reach(reply->extents); !reached) {
    // Frames that cannot be reached are of no use; that they were given back is all that matters now.
    (void)call(wire::Type::give_back, wire::encode_extents(reply->extents));
    return std::move(reached).error();
  }
  return reply;
}

Expected<void> Link::give_back(std::span<const Extent> extents) {
  const std::lock_guard lock(holding_mutex_);
  while (!extents.empty()) {
    const auto batch = extents.first(std::min<std::size_t>(extents.size(), wire::kMaxExtents));
    auto reply = call(wire::Type::give_back, wire::encode_extents(batch));
    if (!reply) return std::move(reply).error();
    forget(batch);
    extents = extents.subspan(batch.size());
  }
  return {};
}

Expected<Session> Link::share() {
  auto reply = decoded<wire::ShareReply>(call(wire::Type::share, {}));
  if (!reply) return std::move(reply).error();
  return Session{reply->heir, wire::heir_key(session().key, *reply), session().boot_id};
}

Expected<wire::NodeLoad> Link::beat() {
  return decoded<wire::NodeLoad>(call(wire::Type::beat, {}));
}

Expected<wire::StatusReply> Link::status() {
  return decoded<wire::StatusReply>(call(wire::Type::status, {}));
}

Expected<std::vector<std::uint32_t>> Link::asked() {
  auto reply = decoded<wire::AskedReply>(call(wire::Type::asked, {}));
  if (!reply) return std::move(reply).error();
  return std::move(reply->slabs);
}

Expected<void> Link::lend(std::uint32_t frames) {
  auto reply = call(wire::Type::lend, wire::encode(wire::Lend{frames}));
  if (!reply) return std::move(reply).error();
  return {};
}

Expected<wire::TicketReply> Link::ticket(std::span<const Extent> extents) {
  return decoded<wire::TicketReply>(call(wire::Type::ticket, wire::encode_extents(extents)));
}

Expected<void> Link::pull(const wire::Pull& request) {
  auto reply = call(wire::Type::pull, wire::encode(request));
  if (!reply) return std::move(reply).error();
  return {};
}

Expected<wire::PullState> Link::pulled() {
  auto reply = decoded<wire::PulledReply>(call(wire::Type::pulled, {}));
  if (!reply) return std::move(reply).error();
  return reply->state;
}

Expected<Fd> Link::export_fence() {
  return Error{Errc::unsupported, "this link has no fence page to hand over"};
}

Expected<SlabExport> Link::export_slab(std::uint32_t) {
  return Error{Errc::unsupported, "this link has no memory to hand over"};
}

void Link::bye() {
  (void)call(wire::Type::bye, {});
  sever(Errc::disconnected);
}

}  // namespace comex
