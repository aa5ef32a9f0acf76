// All that a memory node hears from the network: handshakes, control calls, reads and writes of pages, whole or in
// pieces, from several connections in turn. See node_world.h and node_connection.h for what is checked.
//
// The last byte of an input chooses how it is used: as raw bytes for a connection in one of four states, or as a list
// of things that clients do, most of them proper messages, so that the depths of the node are reached.
#include <fuzzer/FuzzedDataProvider.h>

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "fuzz/node_connection.h"
#include "fuzz/node_world.h"
#include "wire/message.h"

namespace {

using namespace comex;
using fuzz::Connection;
using fuzz::kFrames;
using fuzz::Known;
using fuzz::KnownTicket;
using fuzz::kSlabFrames;
using fuzz::MemoryLine;
using fuzz::NodeWorld;
using wire::Purpose;
using wire::Type;

constexpr uid_t kUid = 1000;
constexpr std::size_t kMaxConnections = 8;
constexpr int kMaxActions = 60;
constexpr std::uint32_t kMaxPages = 300;  // of reads and writes in one input: they are what takes time

std::vector<std::uint16_t> pieces(FuzzedDataProvider& input) {
  std::vector<std::uint16_t> sizes(input.ConsumeIntegralInRange<std::size_t>(0, 12));
  for (auto& size : sizes) {
    const auto byte = input.ConsumeIntegral<std::uint8_t>();
    // Few bytes, about a header, or about a page.
    size = static_cast<std::uint16_t>(byte < 200 ? byte % 40 : (byte - 199) * 128);
  }
  return sizes;
}

void pace(FuzzedDataProvider& input, Connection& connection) {
  connection.line().pace_reads(pieces(input));
  connection.line().pace_writes(pieces(input));
}

// --- raw bytes ---

void send_raw(FuzzedDataProvider& input, Connection& connection) {
  pace(input, connection);
  const auto split = input.ConsumeIntegral<std::uint16_t>();
  const auto raw = input.ConsumeRemainingBytes<std::uint8_t>();
  connection.send(std::as_bytes(std::span(raw)));
  connection.deliver(split);
  connection.deliver();
  connection.look_in_an_hour();
  connection.hang_up();
}

void raw_stranger(FuzzedDataProvider& input) {
  NodeWorld world;
  Connection connection(world, input.ConsumeBool() ? Medium::tcp : Medium::shm, kUid);
  send_raw(input, connection);
}

void raw_client(FuzzedDataProvider& input) {
  NodeWorld world;
  Connection connection(world, input.ConsumeBool() ? Medium::tcp : Medium::shm, kUid);
  connection.greet({.purpose = input.ConsumeBool() ? Purpose::begin : Purpose::observe});
  send_raw(input, connection);
}

void raw_lane(FuzzedDataProvider& input) {
  NodeWorld world;
  Connection control(world, Medium::tcp, kUid);
  control.greet({.purpose = Purpose::begin});
  control.send(fuzz::message(Type::grant, 1, wire::encode(wire::Grant{8, 3})));
  control.deliver();
  Connection lane(world, Medium::tcp, kUid);
  lane.greet({.purpose = Purpose::lane, .joins = control.client()});
  send_raw(input, lane);
}

// Opened by a ticket for some of the client's frames.
void raw_ticket_lane(FuzzedDataProvider& input) {
  NodeWorld world;
  Connection control(world, Medium::tcp, kUid);
  control.greet({.purpose = Purpose::begin});
  control.send(fuzz::message(Type::grant, 1, wire::encode(wire::Grant{8, 3})));
  control.deliver();
  std::uint32_t first = 0;
  while (!control.client()->held[first]) ++first;
  control.send(fuzz::message(Type::ticket, 2, wire::encode_extents(std::array{Extent{FrameNo{first}, 4}})));
  control.deliver();
  Connection lane(world, Medium::tcp, kUid);
  lane.greet({.purpose = Purpose::pull, .ticket = world.tickets().front().get()});
  send_raw(input, lane);
}

// --- things that clients do ---

class Play {
 public:
  explicit Play(FuzzedDataProvider& input) : input_(input) {}
  void run();

 private:
  // Connections come and go, clients stay until they end: nullptr if there is none.
  Connection* some_connection(bool lane);
  Known* some_client();
  KnownTicket* some_ticket();
  std::uint32_t some_frame(const Known* client);
  Extent some_extent(const Known* client);
  std::vector<Extent> some_extents(const Known* client, std::size_t most);

  void connect();
  void begin();
  void call();
  wire::Bytes body_of(Type type, const Known* client);
  void move_pages();
  void anything();
  void burst();
  void deliver(Connection& connection);

  FuzzedDataProvider& input_;
  NodeWorld world_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::uint32_t next_tag_ = 1;
  std::uint32_t pages_left_ = kMaxPages;
};

void Play::run() {
  begin();
  for (int i = 0; i < kMaxActions && input_.remaining_bytes() > 0; ++i) {
    std::erase_if(connections_, [](const auto& connection) { return !connection->open(); });
    switch (input_.ConsumeIntegralInRange<int>(0, 16)) {
      case 0:
      case 1: connect(); break;
      case 2:
      case 3:
      case 4:
      case 5: call(); break;
      case 6:
      case 7:
      case 8: move_pages(); break;
      case 9: anything(); break;
      case 10:
        if (auto* lane = some_connection(true)) lane->deliver(input_.ConsumeIntegral<std::uint16_t>());
        break;
      case 11:
        if (auto* lane = some_connection(true)) {
          const auto most = input_.ConsumeIntegral<std::uint8_t>();
          lane->allow_replies(most > 100 ? MemoryLine::kNoLimit : std::size_t{most} * 7);
        }
        break;
      case 12:
        if (auto* connection = some_connection(input_.ConsumeBool())) {
          input_.ConsumeBool() ? connection->hang_up() : connection->close();
        }
        break;
      case 13:
        if (auto* client = some_client()) world_.store_through_mapping(*client, FrameNo{some_frame(client)});
        break;
      case 14:
        if (auto* connection = some_connection(input_.ConsumeBool())) connection->look_in_an_hour();
        break;
      case 15: burst(); break;
      default: input_.ConsumeIntegralInRange<int>(0, 3) == 0 ? world_.fall_silent() : world_.renew_some(); break;
    }
  }
  for (const auto& connection : connections_) {
    connection->allow_replies(MemoryLine::kNoLimit);
    connection->deliver();
  }
}

// Most plays are about one client with a lane or two.
void Play::begin() {
  const auto how = input_.ConsumeIntegralInRange<int>(0, 3);
  const Medium medium = how == 3 ? Medium::shm : Medium::tcp;
  connections_.push_back(std::make_unique<Connection>(world_, medium, kUid));
  Connection& control = *connections_.back();
  control.greet({.purpose = Purpose::begin, .name = "player"});
  control.send(fuzz::message(Type::grant, next_tag_++, wire::encode(wire::Grant{16, 3})));
  control.deliver();
  for (int i = 0; medium == Medium::tcp && i < how; ++i) {
    connections_.push_back(std::make_unique<Connection>(world_, medium, kUid));
    connections_.back()->greet({.purpose = Purpose::lane, .joins = control.client()});
  }
}

Connection* Play::some_connection(bool lane) {
  std::vector<Connection*> fit;
  for (const auto& connection : connections_) {
    if (connection->open() && connection->lane() == lane) fit.push_back(connection.get());
  }
  return fit.empty() ? nullptr : input_.PickValueInArray({fit.front(), fit.back(), fit[fit.size() / 2]});
}

Known* Play::some_client() {
  const auto& clients = world_.clients();
  if (clients.empty()) return nullptr;
  return clients[input_.ConsumeIntegralInRange<std::size_t>(0, clients.size() - 1)].get();
}

KnownTicket* Play::some_ticket() {
  const auto& tickets = world_.tickets();
  if (tickets.empty()) return nullptr;
  return tickets[input_.ConsumeIntegralInRange<std::size_t>(0, tickets.size() - 1)].get();
}

std::uint32_t Play::some_frame(const Known* client) {
  switch (input_.ConsumeIntegralInRange<int>(0, 9)) {
    case 0: return world_.bystander_frames().first.value + input_.ConsumeIntegralInRange<std::uint32_t>(0, 4);
    case 1: return input_.PickValueInArray<std::uint32_t>({kSlabFrames - 1, kSlabFrames, kFrames - 1, kFrames});
    case 2: return input_.PickValueInArray<std::uint32_t>({0x7fffffff, 0x80000000, 0xfffffffe, 0xffffffff});
    case 3: return input_.ConsumeIntegralInRange<std::uint32_t>(0, kFrames);
    default: break;
  }
  // The n-th frame that the client holds.
  auto n = input_.ConsumeIntegralInRange<std::uint32_t>(0, 15);
  std::uint32_t last = 0;
  for (std::uint32_t f = 0; client != nullptr && f < kFrames; ++f) {
    if (!client->held[f]) continue;
    last = f;
    if (n-- == 0) break;
  }
  return last;
}

Extent Play::some_extent(const Known* client) {
  const FrameNo first{some_frame(client)};
  switch (input_.ConsumeIntegralInRange<int>(0, 7)) {
    case 0: return {first, input_.PickValueInArray<std::uint32_t>({0, 64, 128, 255, 256, 257, kSlabFrames, kFrames})};
    case 1: return {first, input_.PickValueInArray<std::uint32_t>({0x7fffffff, 0x80000000, 0xfffffffe, 0xffffffff})};
    default: return {first, input_.ConsumeIntegralInRange<std::uint32_t>(1, 4)};
  }
}

std::vector<Extent> Play::some_extents(const Known* client, std::size_t most) {
  std::vector<Extent> extents(input_.ConsumeIntegralInRange<std::size_t>(1, most));
  for (auto& extent : extents) extent = some_extent(client);
  return extents;
}

void Play::connect() {
  if (connections_.size() >= kMaxConnections) return;
  const auto purpose = static_cast<Purpose>(input_.ConsumeIntegralInRange<int>(0, 4));
  Connection::Greeting greeting{.purpose = purpose, .name = input_.ConsumeRandomLengthString(70)};
  if (purpose == Purpose::resume || purpose == Purpose::lane) greeting.joins = some_client();
  if (purpose == Purpose::pull) greeting.ticket = some_ticket();
  Medium medium = input_.ConsumeBool() ? Medium::tcp : Medium::shm;
  if (greeting.joins != nullptr) medium = greeting.joins->medium;
  if (greeting.ticket != nullptr) medium = Medium::tcp;
  uid_t uid = kUid;
  // One in a few is not as it should be.
  switch (input_.ConsumeIntegralInRange<int>(0, 15)) {
    case 0: greeting.wrong_proof = true; break;
    case 1: greeting.version_min = greeting.version_max = wire::kVersion + 1; break;
    case 2: greeting.version_max = 0; break;  // less than the least: malformed
    case 3: greeting.version_max = 0xffff; break;
    case 4: medium = medium == Medium::tcp ? Medium::shm : Medium::tcp; break;
    case 5: uid = kUid + 1; break;
    default: break;
  }
  connections_.push_back(std::make_unique<Connection>(world_, medium, uid));
  connections_.back()->greet(greeting);
}

void Play::call() {
  Connection* const control = some_connection(false);
  if (control == nullptr) return;
  constexpr std::array kCalls{Type::grant, Type::grant, Type::give_back, Type::give_back, Type::give_back,
                              Type::share, Type::map,   Type::beat,      Type::status,    Type::bye,
                              Type::asked, Type::lend,  Type::ticket,    Type::pull,      Type::pulled};
  const Type type = input_.PickValueInArray(kCalls);
  control->send(fuzz::message(type, next_tag_++, body_of(type, control->client())));
  deliver(*control);
}

wire::Bytes Play::body_of(Type type, const Known* client) {
  switch (type) {
    case Type::grant: {
      const auto frames =
          input_.PickValueInArray<std::uint32_t>({0, 1, 2, 5, 16, 100, 128, 512, 513, 4096, UINT32_MAX});
      return wire::encode(wire::Grant{frames, input_.ConsumeIntegralInRange<std::uint8_t>(0, 12)});
    }
    case Type::give_back: return wire::encode_extents(some_extents(client, 6));
    case Type::ticket: return wire::encode_extents(some_extents(client, 3));
    case Type::pull: {
      wire::Pull pull;
      pull.source = pull.target = some_extents(client, 3);
      return wire::encode(pull);
    }
    case Type::map: {
      wire::Map map;
      map.slabs.resize(input_.ConsumeIntegralInRange<std::size_t>(0, 3));
      for (auto& slab : map.slabs) slab = input_.PickValueInArray<std::uint32_t>({0, 1, 2, UINT32_MAX});
      return wire::encode(map);
    }
    default: return {};
  }
}

void Play::move_pages() {
  Connection* const lane = some_connection(true);
  if (lane == nullptr) return;
  const auto extents = some_extents(lane->client(), 5);
  std::uint64_t pages = 0;
  for (const auto& extent : extents) pages += extent.count;
  const bool writes = input_.ConsumeBool();
  // Nonsense may be asked for at length; it costs nothing but a closed connection.
  if (pages <= wire::kMaxTransferPages && pages > pages_left_) return;
  const bool sends = writes && pages <= wire::kMaxTransferPages;
  if (pages <= wire::kMaxTransferPages) pages_left_ -= static_cast<std::uint32_t>(pages);
  const auto encoded = wire::encode_extents(extents);
  const auto body = wire::ByteView(encoded).subspan(sizeof(std::uint32_t));  // segments go without their number
  lane->send(fuzz::message(writes ? Type::write : Type::read, next_tag_++, body, sends ? pages << kPageShift : 0));
  deliver(*lane);
}

// A header whose every field is up to the input, and some bytes after it.
void Play::anything() {
  Connection* const connection = some_connection(input_.ConsumeBool());
  if (connection == nullptr) return;
  wire::Header header;
  header.body = input_.ConsumeIntegral<std::uint8_t>();
  header.type = input_.ConsumeIntegralInRange<std::uint16_t>(0, 17);
  header.status = input_.ConsumeBool() ? 1 : 0;
  header.tag = next_tag_++;
  switch (input_.ConsumeIntegralInRange<int>(0, 7)) {
    case 0: header.body = input_.ConsumeIntegral<std::uint32_t>(); break;
    case 1: header.payload = input_.ConsumeIntegral<std::uint32_t>(); break;
    case 2: header.type |= wire::kReplyBit; break;
    default: break;
  }
  connection->send(std::as_bytes(std::span(&header, 1)));
  auto body = input_.ConsumeBytes<std::uint8_t>(header.body % 512);
  body.resize(header.body % 512);
  connection->send(std::as_bytes(std::span(body)));
  deliver(*connection);
}

// More small requests at once than the node serves in one step, or than its buffer for replies holds.
void Play::burst() {
  Connection* const connection = some_connection(input_.ConsumeBool());
  if (connection == nullptr) return;
  const auto nobodys = wire::encode_extents(std::array{Extent{FrameNo{kFrames}, 1}});
  const auto segment = wire::ByteView(nobodys).subspan(sizeof(std::uint32_t));
  for (auto n = input_.ConsumeIntegralInRange<int>(60, 140); n > 0; --n) {
    const bool lane = connection->lane();
    connection->send(fuzz::message(lane ? Type::read : Type::beat, next_tag_++, lane ? segment : wire::ByteView()));
  }
  deliver(*connection);
}

// Mostly at once; else a part of it, and the rest at another time.
void Play::deliver(Connection& connection) {
  if (input_.ConsumeIntegralInRange<int>(0, 3) == 0) pace(input_, connection);
  if (input_.ConsumeIntegralInRange<int>(0, 2) > 0) return connection.deliver();
  connection.deliver(input_.ConsumeIntegralInRange<std::size_t>(0, connection.queued()));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  FuzzedDataProvider input(data, size);
  switch (input.ConsumeIntegralInRange<int>(0, 7)) {
    case 0: raw_stranger(input); break;
    case 1: raw_client(input); break;
    case 2: raw_lane(input); break;
    case 3: raw_ticket_lane(input); break;
    default: Play(input).run(); break;
  }
  return 0;
}
