#include "run/keeper/lane_relay.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include "wire/message.h"

namespace comex {
namespace {

using wire::Header;
using wire::Type;

bool receive_all(int socket, std::span<std::byte> into) {
  while (!into.empty()) {
    const ssize_t got = ::recv(socket, into.data(), into.size(), MSG_WAITALL);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    into = into.subspan(static_cast<std::size_t>(got));
  }
  return true;
}

bool send_all(int socket, wire::ByteView from) {
  while (!from.empty()) {
    const ssize_t sent = ::send(socket, from.data(), from.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    from = from.subspan(static_cast<std::size_t>(sent));
  }
  return true;
}

}  // namespace

LaneRelay::~LaneRelay() {
  const std::lock_guard lock(mutex_);
  for (Lane& lane : lanes_) ::shutdown(lane.socket.get(), SHUT_RDWR);
  for (Lane& lane : lanes_) lane.thread.join();
}

Expected<Fd> LaneRelay::open(NodeId node, std::uint64_t link) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return system_error("cannot make a lane: raise the limit of open files (ulimit -n)");
  }
  Fd theirs(ends[1]);
  const std::lock_guard lock(mutex_);
  bury_dead();
  Lane& lane = lanes_.emplace_back();
  lane.socket = Fd(ends[0]);
  lane.node = node;
  lane.link = link;
  lane.thread = std::thread([this, &lane] { serve(lane); });
  return theirs;
}

void LaneRelay::bury_dead() {
  lanes_.remove_if([](Lane& lane) {
    if (!lane.over.load()) return false;
    lane.thread.join();
    return true;
  });
}

void LaneRelay::serve(Lane& lane) {
  std::vector<std::byte> pages(std::size_t{wire::kMaxTransferPages} << kPageShift);
  while (serve_one(lane, pages)) {
  }
  // Whoever waits at the other end sees it end only now. The descriptor itself stays until the thread is joined.
  ::shutdown(lane.socket.get(), SHUT_RDWR);
  lane.over.store(true);
}

// False: the lane is over.
bool LaneRelay::serve_one(Lane& lane, std::span<std::byte> pages) {
  std::array<std::byte, Header::kBytes> raw;
  if (!receive_all(lane.socket.get(), raw)) return false;
  const auto header = wire::decode_header(raw);
  std::array<std::byte, wire::kMaxSegments * sizeof(Extent)> body;
  if (!header || header->body > body.size()) return false;
  if (!receive_all(lane.socket.get(), std::span(body).first(header->body))) return false;
  std::array<Extent, wire::kMaxSegments> extents;
  const auto count = wire::decode_segments(std::span(body).first(header->body), extents);
  const auto type = static_cast<Type>(header->type);
  if (!count || (type != Type::read && type != Type::write)) return false;

  std::array<Segment, wire::kMaxSegments> segments;
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < *count; ++i) {
    segments[i] = Segment{extents[i].first, extents[i].count, pages.data() + bytes};
    bytes += extents[i].bytes();
  }
  const bool writes = type == Type::write;
  if (header->payload != (writes ? bytes : 0)) return false;
  if (writes && !receive_all(lane.socket.get(), pages.first(bytes))) return false;
  Transfer transfer(writes ? Direction::write : Direction::read, std::span(segments).first(*count));
  {
    const auto link = pool_.enter(lane.node);
    if (!link || link->number() != lane.link) return false;
    (void)link->move(transfer);
    if (link->broken() != Errc::ok) return false;
  }
  const bool pages_follow = !writes && transfer.result() == Errc::ok;
  Header reply;
  reply.type = header->type | wire::kReplyBit;
  reply.status = static_cast<std::uint16_t>(transfer.result());
  reply.tag = header->tag;
  reply.payload = pages_follow ? static_cast<std::uint32_t>(bytes) : 0;
  return send_all(lane.socket.get(), std::as_bytes(std::span(&reply, 1))) &&
         (!pages_follow || send_all(lane.socket.get(), pages.first(bytes)));
}

}  // namespace comex
