#include "fuzz/node_world.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "fuzz/require.h"

namespace comex::fuzz {
namespace {

constexpr Millis kLease{10'000};
constexpr std::size_t kSampleEvery = 64;  // bytes: a write of one page is seen, a scan stays cheap

// Allocating it takes longer than a thousand inputs. It is all zeros between inputs.
Arena& shared_arena() {
  static const auto arena = Arena::create(
      {.bytes = std::uint64_t{kFrames} << kPageShift, .lock = false, .huge_pages = false, .progress = nullptr});
  require(arena.has_value(), "an arena can be made");
  return **arena;
}

std::span<std::byte> bytes_of(const Arena& arena, std::uint32_t frame) {
  return {arena.frame_address(FrameNo{frame}), kPageSize};
}

// REQUIRES: not empty. (Each byte is like its neighbour, and the first is right.)
bool all_are(std::span<const std::byte> bytes, std::byte value) {
  return bytes[0] == value && std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0;
}

template <typename F>
void for_each_frame(const Extent& extent, F&& f) {
  for (std::uint64_t frame = extent.first.value; frame < std::min<std::uint64_t>(extent.end(), kFrames); ++frame) {
    f(static_cast<std::uint32_t>(frame));
  }
}

}  // namespace

bool Known::holds(const Extent& extent) const {
  bool all = extent.end() <= kFrames;
  for_each_frame(extent, [&](std::uint32_t frame) { all = all && held[frame]; });
  return all;
}

bool Known::holds_any_of_slab(std::uint32_t slab) const {
  if (slab >= kSlabs) return false;
  bool any = false;
  for (std::uint32_t i = 0; i < kSlabFrames; ++i) any = any || held[slab * kSlabFrames + i];
  return any;
}

bool KnownTicket::opens(const Extent& extent) const {
  return std::any_of(extents.begin(), extents.end(), [&](const Extent& open) {
    return open.first.value <= extent.first.value && extent.end() <= open.end();
  });
}

NodeWorld::NodeWorld() : arena_(shared_arena()) {
  ledger_ = std::make_unique<Ledger>(
      arena_, LedgerConfig{.lease = kLease, .max_clients = kMaxClients, .max_grant = LedgerConfig{}.max_grant});
  node_.reset(new NodeContext{.arena = arena_,
                              .ledger = *ledger_,
                              .secret = "known to the harness",
                              .nid = NodeId{7},
                              .lease = kLease,
                              .boot_id = 0x1122334455667788,
                              .lend = [](std::uint32_t) {}});  // the model has no slabs that go
  auto client = ledger_->admit(ledger_->next_id(), {}, Arrival{Medium::tcp, 0, 1, "bystander", "nowhere", nullptr});
  require(client.has_value(), "the bystander can come in");
  bystander_ = *std::move(client);
  const auto frames = ledger_->grant(*bystander_, 4, 2);
  require(frames.has_value() && frames->size() == 1, "the bystander can have frames");
  bystander_frames_ = frames->front();
  for_each_frame(bystander_frames_, [&](std::uint32_t f) {
    std::memset(bytes_of(arena_, f).data(), std::to_integer<int>(kBystanderByte), kPageSize);
  });
}

NodeWorld::~NodeWorld() {
  for (const auto& greeting : node_->greeting) {
    require(greeting.load() == 0, "connections that are gone are not counted as greeting");
  }
  end_all_but_bystander();
  while (ledger_->renew_some(kSlabs)) {
  }
  check_bystander();
  const auto load = ledger_->load();
  require(load.clients == 1, "ended clients are gone");
  require(load.free_frames == kFrames - bystander_frames_.count, "ended clients leave all their frames");
  check_rest_untouched();

  ledger_->end(*bystander_);
  require(ledger_->load().free_frames == kFrames, "all frames come back");
  require(ledger_->load().largest_free == kSlabFrames, "free frames coalesce");
  // The next input's ledger is new and takes the arena for clean.
  for_each_frame(bystander_frames_, [&](std::uint32_t f) { stained_.set(f); });
  for (std::uint32_t f = 0; f < kFrames; ++f) {
    if (stained_[f]) std::memset(bytes_of(arena_, f).data(), 0, kPageSize);
  }
}

void NodeWorld::check_bystander() const {
  require(!bystander_->fenced.load(), "the bystander is not fenced");
  require(bystander_->holdings.frames() == bystander_frames_.count && bystander_->holdings.holds(bystander_frames_),
          "the bystander holds what it held");
  for_each_frame(bystander_frames_, [&](std::uint32_t f) {
    require(all_are(bytes_of(arena_, f), kBystanderByte), "the bystander's pages are intact");
  });
}

// A few bytes of each page: what is written is never 0, and no write begins or ends between them.
void NodeWorld::check_rest_untouched() const {
  for (std::uint32_t f = 0; f < kFrames; ++f) {
    const bool theirs = f >= bystander_frames_.first.value && f < bystander_frames_.end();
    if (stained_[f] || theirs) continue;
    const auto page = bytes_of(arena_, f);
    require(page.front() == std::byte{} && page.back() == std::byte{}, "frames that nobody held are as they were");
  }
}

std::uint32_t NodeWorld::live_clients() const {
  const auto live = std::count_if(clients_.begin(), clients_.end(), [](const auto& client) { return !client->ended; });
  return static_cast<std::uint32_t>(live) + 1;
}

Known& NodeWorld::begun(ClientId id, const wire::SessionKey& key, Medium medium, uid_t uid) {
  for (const auto& other : clients_) require(other->id != id, "a client's id is its own");
  require(id != ClientId{} && id != bystander_->id, "a client's id is its own");
  clients_.push_back(std::make_unique<Known>());
  Known& client = *clients_.back();
  client.id = id;
  client.key = key;
  client.medium = medium;
  client.uid = uid;
  client.mark = static_cast<std::byte>(1 + families_++ % 100);
  return client;
}

Known& NodeWorld::shared(const Known& parent, const wire::ShareReply& reply) {
  Known& heir = begun(reply.heir, wire::heir_key(parent.key, reply), parent.medium, parent.uid);
  heir.mark = parent.mark;
  heir.held = parent.held;
  return heir;
}

void NodeWorld::granted(Known& client, const wire::Grant& request, const std::vector<Extent>& extents, bool latest) {
  require(!extents.empty(), "a grant is not empty");
  for (const auto& extent : extents) {
    require(extent.end() <= kFrames, "granted frames are in the arena");
    require(std::has_single_bit(extent.count) && extent.count >= 1U << request.min_order, "no scraps are granted");
    const std::uint32_t slab = extent.first.value / kSlabFrames;
    require(slab == (extent.end() - 1) / kSlabFrames, "an extent does not cross slabs");
    const bool mapped = latest && arena_.exported(slab);
    require(!mapped || mapped_by_[slab] == client.mark, "memory that others have mapped is not granted");
    for_each_frame(extent, [&](std::uint32_t f) {
      const bool bystanders = f >= bystander_frames_.first.value && f < bystander_frames_.end();
      require(!bystanders, "the bystander's frames are not granted to others");
      for (const auto& other : clients_) {
        require(other->ended || !other->held[f], "frames that somebody holds are not granted");
      }
      client.held.set(f);
      const bool asked = client.asked[f];
      if (!stained_[f]) {
        stained_.set(f, asked);
        return;
      }
      const auto page = bytes_of(arena_, f);
      if (client.medium == Medium::tcp) {
        require(all_are(page, std::byte{}), "granted frames are zero");
        stained_.set(f, asked);
      } else {
        require(page[0] == std::byte{} || page[0] == client.mark, "granted frames are zero, or the family's own");
      }
    });
  }
}

void NodeWorld::given_back(Known& client, const std::vector<Extent>& extents) {
  for (const auto& extent : extents) {
    require(client.holds(extent), "only held frames can be given back");
    for_each_frame(extent, [&](std::uint32_t f) { client.held.reset(f); });
  }
}

void NodeWorld::mapped(Known& client, std::uint32_t slab) {
  client.mapped.set(slab);
  mapped_by_[slab] = client.mark;
}

void NodeWorld::ended(Known& client) {
  client.ended = true;
  client.held.reset();
}

void NodeWorld::gave_ticket(Known& client, const std::vector<Extent>& extents, const wire::TicketReply& reply) {
  for (const auto& other : tickets_) require(other->number != reply.number, "a ticket's number is its own");
  tickets_.push_back(std::make_unique<KnownTicket>(
      KnownTicket{&client, client.coming, reply.number, wire::ticket_key(client.key, reply), extents, false}));
}

void NodeWorld::may_write(Known& client, std::span<const Extent> extents) {
  for (const auto& extent : extents) {
    for_each_frame(extent, [&](std::uint32_t f) {
      if (client.held[f]) {
        stained_.set(f);
      } else {
        client.asked.set(f);
      }
    });
  }
}

void NodeWorld::check_sent(const Known& client, wire::ByteView pages) const {
  for (std::size_t at = 0; at < pages.size(); at += kSampleEvery) {
    require(pages[at] == std::byte{} || pages[at] == client.mark, "a client sees zeros and its family's bytes only");
  }
}

void NodeWorld::end_all_but_bystander() {
  const auto now = Clock::now();
  bystander_->touch(now + 2 * kLease);
  // In steps, as a server looks: a ledger that has not looked for long thinks that it was itself away.
  for (int i = 1; i <= 8; ++i) ledger_->end_silent(now + i * kLease / 4);
  for (const auto& client : clients_) ended(*client);
}

void NodeWorld::fall_silent() {
  end_all_but_bystander();
  require(ledger_->load().clients == 1, "silent clients are ended");
}

void NodeWorld::store_through_mapping(const Known& client, FrameNo frame) {
  const std::uint32_t slab = frame.value / kSlabFrames;
  if (frame.value >= kFrames || !client.mapped[slab]) return;
  if (!arena_.exported(slab) || mapped_by_[slab] != client.mark) return;
  std::memset(bytes_of(arena_, frame.value).data(), std::to_integer<int>(client.mark), kPageSize);
  stained_.set(frame.value);
}

}  // namespace comex::fuzz
