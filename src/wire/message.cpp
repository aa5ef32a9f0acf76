#include "wire/message.h"

namespace comex::wire {
namespace {

void put(Writer& w, const Extent& extent) {
  w.put(extent.first.value).put(extent.count);
}

void put(Writer& w, const NodeLoad& load) {
  w.put(load.free_frames).put(load.largest_free).put(load.clients).put(load.service_ns).put(load.asked);
}

NodeLoad get_load(Reader& r) {
  NodeLoad load;
  load.free_frames = r.get<std::uint32_t>();
  load.largest_free = r.get<std::uint32_t>();
  load.clients = r.get<std::uint32_t>();
  load.service_ns = r.get<std::uint32_t>();
  load.asked = r.get<std::uint32_t>();
  return load;
}

Extent get_extent(Reader& r) {
  const auto first = FrameNo{r.get<std::uint32_t>()};
  return Extent{first, r.get<std::uint32_t>()};
}

bool well_formed(const Extent& extent) {
  return extent.count > 0 && extent.end() <= std::uint64_t{UINT32_MAX} + 1;
}

// A count, then that many extents. False if there are too many, or one is malformed.
bool get_extents(Reader& r, std::vector<Extent>& out) {
  const auto count = r.get<std::uint32_t>();
  if (count > kMaxExtents || r.left() < std::size_t{count} * 8) return false;
  out.reserve(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    out.push_back(get_extent(r));
    if (!well_formed(out.back())) return false;
  }
  return r.ok();
}

std::uint64_t pages_of(std::span<const Extent> extents) {
  std::uint64_t pages = 0;
  for (const auto& extent : extents) pages += extent.count;
  return pages;
}

// As get_extents, within the limits of one read or write.
bool get_few_extents(Reader& r, std::vector<Extent>& out) {
  return get_extents(r, out) && !out.empty() && out.size() <= kMaxSegments && pages_of(out) <= kMaxTransferPages;
}

void put(Writer& w, const TicketReply& ticket) {
  w.put(ticket.number).put(ByteView(ticket.nonce));
}

TicketReply get_ticket(Reader& r) {
  TicketReply ticket;
  ticket.number = r.get<std::uint64_t>();
  ticket.nonce = r.get_array<32>();
  return ticket;
}

Bytes encode_slabs(std::span<const std::uint32_t> slabs) {
  Writer w;
  w.put(static_cast<std::uint32_t>(slabs.size()));
  for (const auto slab : slabs) w.put(slab);
  return w.take();
}

template <typename T>
std::optional<T> if_finished(const Reader& r, T message) {
  if (!r.finished()) return std::nullopt;
  return message;
}

}  // namespace

std::optional<Header> decode_header(std::span<const std::byte, Header::kBytes> bytes) {
  Header header;
  std::memcpy(&header, bytes.data(), Header::kBytes);
  const unsigned type = header.type & ~unsigned{kReplyBit};
  const bool pages = type == static_cast<unsigned>(Type::read) || type == static_cast<unsigned>(Type::write);
  if (type < static_cast<unsigned>(Type::hello) || type > static_cast<unsigned>(Type::pulled)) return std::nullopt;
  if (header.body > kMaxBody) return std::nullopt;
  if (header.payload > (pages ? kMaxTransferPages * kPageSize : 0)) return std::nullopt;
  if (header.payload % kPageSize != 0) return std::nullopt;
  return header;
}

Bytes encode(const Hello& m) {
  Writer w;
  w.put(kMagic).put(m.version_min).put(m.version_max).put(static_cast<std::uint8_t>(m.purpose));
  w.put(m.nid.value).put(m.pid).put(m.client.value).put(ByteView(m.nonce));
  w.put(std::string_view(m.name).substr(0, kMaxName));
  return w.take();
}

std::optional<Versions> decode_versions(ByteView hello) {
  Reader r(hello);
  const auto magic = r.get<std::uint32_t>();
  const auto min = r.get<std::uint16_t>();
  const auto max = r.get<std::uint16_t>();
  if (!r.ok() || magic != kMagic || min > max) return std::nullopt;
  return Versions{min, max};
}

template <>
std::optional<Hello> decode(ByteView body) {
  Reader r(body);
  Hello m;
  const auto magic = r.get<std::uint32_t>();
  m.version_min = r.get<std::uint16_t>();
  m.version_max = r.get<std::uint16_t>();
  const auto purpose = r.get<std::uint8_t>();
  m.purpose = static_cast<Purpose>(purpose);
  m.nid.value = r.get<std::uint16_t>();
  m.pid = r.get<std::uint32_t>();
  m.client.value = r.get<std::uint64_t>();
  m.nonce = r.get_array<32>();
  m.name = r.get_string();
  if (magic != kMagic || purpose > static_cast<std::uint8_t>(Purpose::pull) || m.name.size() > kMaxName ||
      m.version_min > m.version_max) {
    return std::nullopt;
  }
  return if_finished(r, std::move(m));
}

Bytes encode(const HelloReply& m) {
  Writer w;
  w.put(m.version).put(m.boot_id).put(ByteView(m.nonce));
  return w.take();
}

template <>
std::optional<HelloReply> decode(ByteView body) {
  Reader r(body);
  HelloReply m;
  m.version = r.get<std::uint16_t>();
  m.boot_id = r.get<std::uint64_t>();
  m.nonce = r.get_array<32>();
  return if_finished(r, m);
}

Bytes encode(const Proof& m) {
  return Bytes(m.mac.begin(), m.mac.end());
}

template <>
std::optional<Proof> decode(ByteView body) {
  Reader r(body);
  Proof m;
  m.mac = r.get_array<32>();
  return if_finished(r, m);
}

Bytes encode(const ProofReply& m) {
  Writer w;
  w.put(ByteView(m.mac)).put(m.client.value).put(m.nid.value).put(m.frames).put(m.slab_order).put(m.lease_ms);
  return w.take();
}

template <>
std::optional<ProofReply> decode(ByteView body) {
  Reader r(body);
  ProofReply m;
  m.mac = r.get_array<32>();
  m.client.value = r.get<std::uint64_t>();
  m.nid.value = r.get<std::uint16_t>();
  m.frames = r.get<std::uint32_t>();
  m.slab_order = r.get<std::uint8_t>();
  m.lease_ms = r.get<std::uint32_t>();
  if (m.slab_order > 31) return std::nullopt;
  return if_finished(r, m);
}

Bytes encode(const Grant& m) {
  Writer w;
  w.put(m.frames).put(m.min_order);
  return w.take();
}

template <>
std::optional<Grant> decode(ByteView body) {
  Reader r(body);
  Grant m;
  m.frames = r.get<std::uint32_t>();
  m.min_order = r.get<std::uint8_t>();
  if (m.frames == 0 || m.min_order > 31) return std::nullopt;
  return if_finished(r, m);
}

Bytes encode(const NodeLoad& m) {
  Writer w;
  put(w, m);
  return w.take();
}

template <>
std::optional<NodeLoad> decode(ByteView body) {
  Reader r(body);
  const auto m = get_load(r);
  return if_finished(r, m);
}

Bytes encode_extents(std::span<const Extent> extents) {
  Writer w;
  w.put(static_cast<std::uint32_t>(extents.size()));
  for (const auto& extent : extents) put(w, extent);
  return w.take();
}

Bytes encode(const GrantReply& m) {
  Writer w;
  put(w, m.load);
  w.put(ByteView(encode_extents(m.extents)));
  return w.take();
}

template <>
std::optional<GrantReply> decode(ByteView body) {
  Reader r(body);
  GrantReply m;
  m.load = get_load(r);
  if (!get_extents(r, m.extents)) return std::nullopt;
  return if_finished(r, std::move(m));
}

Bytes encode(const GiveBack& m) {
  return encode_extents(m.extents);
}

template <>
std::optional<GiveBack> decode(ByteView body) {
  Reader r(body);
  GiveBack m;
  if (!get_extents(r, m.extents) || m.extents.empty()) return std::nullopt;
  return if_finished(r, std::move(m));
}

Bytes encode(const ShareReply& m) {
  Writer w;
  w.put(m.heir.value).put(ByteView(m.nonce));
  return w.take();
}

template <>
std::optional<ShareReply> decode(ByteView body) {
  Reader r(body);
  ShareReply m;
  m.heir.value = r.get<std::uint64_t>();
  m.nonce = r.get_array<32>();
  return if_finished(r, m);
}

Bytes encode(const Map& m) {
  return encode_slabs(m.slabs);
}

template <>
std::optional<Map> decode(ByteView body) {
  Reader r(body);
  Map m;
  const auto count = r.get<std::uint32_t>();
  if (count == 0 || count > kMaxSlabsPerMap) return std::nullopt;
  for (std::uint32_t i = 0; i < count; ++i) m.slabs.push_back(r.get<std::uint32_t>());
  return if_finished(r, std::move(m));
}

Bytes encode(const AskedReply& m) {
  return encode_slabs(std::span(m.slabs).first(std::min<std::size_t>(m.slabs.size(), kMaxAsked)));
}

template <>
std::optional<AskedReply> decode(ByteView body) {
  Reader r(body);
  AskedReply m;
  const auto count = r.get<std::uint32_t>();
  if (count > kMaxAsked || r.left() < std::size_t{count} * 4) return std::nullopt;
  for (std::uint32_t i = 0; i < count; ++i) m.slabs.push_back(r.get<std::uint32_t>());
  return if_finished(r, std::move(m));
}

Bytes encode(const Lend& m) {
  Writer w;
  w.put(m.frames);
  return w.take();
}

template <>
std::optional<Lend> decode(ByteView body) {
  Reader r(body);
  const Lend m{r.get<std::uint32_t>()};
  return if_finished(r, m);
}

Bytes encode(const MapReply& m) {
  Writer w;
  w.put(static_cast<std::uint32_t>(m.keys.size()));
  for (const auto& key : m.keys) w.put(key.address).put(key.key);
  return w.take();
}

template <>
std::optional<MapReply> decode(ByteView body) {
  Reader r(body);
  MapReply m;
  const auto count = r.get<std::uint32_t>();
  if (count == 0 || count > kMaxSlabsPerMap) return std::nullopt;
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto address = r.get<std::uint64_t>();
    m.keys.push_back(SlabKey{address, r.get<std::uint32_t>()});
  }
  return if_finished(r, std::move(m));
}

Bytes encode(const Ticket& m) {
  return encode_extents(m.extents);
}

template <>
std::optional<Ticket> decode(ByteView body) {
  Reader r(body);
  Ticket m;
  if (!get_few_extents(r, m.extents)) return std::nullopt;
  return if_finished(r, std::move(m));
}

Bytes encode(const TicketReply& m) {
  Writer w;
  put(w, m);
  return w.take();
}

template <>
std::optional<TicketReply> decode(ByteView body) {
  Reader r(body);
  const auto m = get_ticket(r);
  return if_finished(r, m);
}

Bytes encode(const Pull& m) {
  Writer w;
  w.put(ByteView(m.from.ip)).put(m.from.port).put(m.boot_id);
  put(w, m.ticket);
  w.put(ByteView(m.covered_key));
  w.put(ByteView(encode_extents(m.source))).put(ByteView(encode_extents(m.target)));
  return w.take();
}

template <>
std::optional<Pull> decode(ByteView body) {
  Reader r(body);
  Pull m;
  m.from.ip = r.get_array<16>();
  m.from.port = r.get<std::uint16_t>();
  m.boot_id = r.get<std::uint64_t>();
  m.ticket = get_ticket(r);
  m.covered_key = r.get_array<32>();
  if (!get_few_extents(r, m.source) || !get_few_extents(r, m.target)) return std::nullopt;
  if (pages_of(m.source) != pages_of(m.target)) return std::nullopt;
  return if_finished(r, std::move(m));
}

Bytes encode(const PulledReply& m) {
  Writer w;
  w.put(static_cast<std::uint8_t>(m.state));
  return w.take();
}

template <>
std::optional<PulledReply> decode(ByteView body) {
  Reader r(body);
  const auto state = r.get<std::uint8_t>();
  if (state > static_cast<std::uint8_t>(PullState::failed)) return std::nullopt;
  return if_finished(r, PulledReply{static_cast<PullState>(state)});
}

Bytes encode(const StatusReply& m) {
  Writer w;
  w.put(m.nid.value).put(m.frames).put(m.goal).put(m.present).put(m.lent);
  put(w, m.load);
  w.put(m.uptime_ms).put(m.metadata_bytes).put(m.pages_read).put(m.pages_written).put(m.client_count);
  const auto listed = std::min<std::size_t>(m.clients.size(), kMaxStatusClients);
  w.put(static_cast<std::uint32_t>(listed));
  for (const auto& c : std::span(m.clients).first(listed)) {
    w.put(c.id.value)
        .put(std::string_view(c.name).substr(0, kMaxName))
        .put(std::string_view(c.peer).substr(0, kMaxName));
    w.put(c.pid).put(c.frames).put(c.silent_ms);
  }
  if (m.pages_pulled) w.put(*m.pages_pulled);
  return w.take();
}

template <>
std::optional<StatusReply> decode(ByteView body) {
  Reader r(body);
  StatusReply m;
  m.nid.value = r.get<std::uint16_t>();
  m.frames = r.get<std::uint32_t>();
  m.goal = r.get<std::uint32_t>();
  m.present = r.get<std::uint32_t>();
  m.lent = r.get<std::uint32_t>();
  m.load = get_load(r);
  m.uptime_ms = r.get<std::uint64_t>();
  m.metadata_bytes = r.get<std::uint64_t>();
  m.pages_read = r.get<std::uint64_t>();
  m.pages_written = r.get<std::uint64_t>();
  m.client_count = r.get<std::uint32_t>();
  const auto listed = r.get<std::uint32_t>();
  if (listed > kMaxStatusClients) return std::nullopt;
  for (std::uint32_t i = 0; i < listed && r.ok(); ++i) {
    StatusReply::Client c;
    c.id.value = r.get<std::uint64_t>();
    c.name = r.get_string();
    c.peer = r.get_string();
    c.pid = r.get<std::uint32_t>();
    c.frames = r.get<std::uint32_t>();
    c.silent_ms = r.get<std::uint32_t>();
    if (c.name.size() > kMaxName || c.peer.size() > kMaxName) return std::nullopt;
    m.clients.push_back(std::move(c));
  }
  if (r.ok() && r.left() > 0) m.pages_pulled = r.get<std::uint64_t>();
  return if_finished(r, std::move(m));
}

std::optional<std::size_t> decode_segments(ByteView body, std::span<Extent, kMaxSegments> out) {
  const auto count = body.size() / 8;
  if (body.size() % 8 != 0 || count == 0 || count > kMaxSegments) return std::nullopt;
  Reader r(body);
  for (std::size_t i = 0; i < count; ++i) {
    out[i] = get_extent(r);
    if (!well_formed(out[i])) return std::nullopt;
  }
  if (pages_of(out.first(count)) > kMaxTransferPages) return std::nullopt;
  return count;
}

}  // namespace comex::wire
