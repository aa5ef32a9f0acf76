// Everything that decodes bytes from the network into messages. Whatever decodes must encode to exactly the bytes it
// came from: then there is one way to say each thing, and decode() accepts only what encode() makes.
#include <algorithm>
#include <array>
#include <cstring>

#include "fuzz/require.h"
#include "wire/message.h"

namespace {

using namespace comex;
using fuzz::require;
using wire::ByteView;

bool well_formed(const Extent& extent) {
  return extent.count > 0 && extent.end() <= std::uint64_t{UINT32_MAX} + 1;
}

template <typename T>
void check_limits(const T&) {}

void check_limits(const wire::Hello& m) {
  require(m.name.size() <= wire::kMaxName, "a name is short");
  require(m.version_min <= m.version_max, "a range of versions is not empty");
}

void check_limits(const wire::GrantReply& m) {
  require(m.extents.size() <= wire::kMaxExtents, "a grant has a limit");
  require(std::all_of(m.extents.begin(), m.extents.end(), well_formed), "granted extents are well formed");
}

void check_limits(const wire::GiveBack& m) {
  require(!m.extents.empty() && m.extents.size() <= wire::kMaxExtents, "a return has a limit");
  require(std::all_of(m.extents.begin(), m.extents.end(), well_formed), "returned extents are well formed");
}

void check_limits(const wire::MapReply& m) {
  require(!m.keys.empty() && m.keys.size() <= wire::kMaxSlabsPerMap, "a map call has a limit");
}
void check_limits(const wire::Map& m) {
  require(!m.slabs.empty() && m.slabs.size() <= wire::kMaxSlabsPerMap, "a map call has a limit");
}

void check_limits(const wire::AskedReply& m) {
  require(m.slabs.size() <= wire::kMaxAsked, "so many slabs are asked for");
}

bool fits_one_read(const std::vector<Extent>& extents) {
  std::uint64_t pages = 0;
  for (const auto& extent : extents) pages += extent.count;
  return !extents.empty() && extents.size() <= wire::kMaxSegments && pages <= wire::kMaxTransferPages &&
         std::all_of(extents.begin(), extents.end(), well_formed);
}

void check_limits(const wire::Ticket& m) {
  require(fits_one_read(m.extents), "a ticket is for one read");
}

void check_limits(const wire::Pull& m) {
  require(fits_one_read(m.source) && fits_one_read(m.target), "a pull is one read and one write");
  std::uint64_t pages = 0;
  for (const auto& extent : m.source) pages += extent.count;
  for (const auto& extent : m.target) pages -= extent.count;
  require(pages == 0, "what is pulled has its place");
}

void check_limits(const wire::PulledReply& m) {
  require(m.state <= wire::PullState::failed, "the state of a pull is known");
}

void check_limits(const wire::StatusReply& m) {
  require(m.clients.size() <= wire::kMaxStatusClients, "a status lists so many clients");
}

// The bytes with one more behind, or without the last, are another message: none, or it would not be told apart.
template <typename T>
void check_ends(ByteView body) {
  wire::Bytes longer(body.begin(), body.end());
  longer.push_back(std::byte{0});
  require(!wire::decode<T>(longer), "nothing may follow a message");
  require(!wire::decode<T>(body.first(body.size() - 1)), "no byte of a message may be missing");
}

template <typename T>
void check(ByteView body) {
  const auto message = wire::decode<T>(body);
  if (!message) return;
  check_limits(*message);
  require(body.size() <= wire::kMaxBody, "a message fits in a body");
  const wire::Bytes again = wire::encode(*message);
  require(std::equal(again.begin(), again.end(), body.begin(), body.end()), "decoding and encoding is no change");
  check_ends<T>(body);
}

void check_header(ByteView bytes) {
  if (bytes.size() < wire::Header::kBytes) return;
  const auto raw = bytes.first<wire::Header::kBytes>();
  const auto header = wire::decode_header(raw);
  if (!header) return;
  require(std::memcmp(&*header, raw.data(), raw.size()) == 0, "a header is its bytes");
  const auto type = static_cast<wire::Type>(header->type & ~wire::kReplyBit);
  require(type >= wire::Type::hello && type <= wire::Type::pulled, "a header has a known type");
  require(header->body <= wire::kMaxBody, "a body has a limit");
  require(header->payload % kPageSize == 0, "a payload is whole pages");
  const bool pages = type == wire::Type::read || type == wire::Type::write;
  require(header->payload <= (pages ? wire::kMaxTransferPages * kPageSize : 0), "a payload has a limit");
}

void check_segments(ByteView body) {
  std::array<Extent, wire::kMaxSegments> out;
  const auto count = wire::decode_segments(body, out);

  // What its comment promises, said once more.
  std::uint64_t pages = 0;
  bool right = body.size() % sizeof(Extent) == 0 && !body.empty() && body.size() / sizeof(Extent) <= wire::kMaxSegments;
  wire::Reader reader(body);
  for (std::size_t i = 0; right && i < body.size() / sizeof(Extent); ++i) {
    const auto first = FrameNo{reader.get<std::uint32_t>()};
    const Extent extent{first, reader.get<std::uint32_t>()};
    right = well_formed(extent) && (!count || out[i] == extent);
    pages += extent.count;
  }
  right = right && pages <= wire::kMaxTransferPages;
  require(count.has_value() == right, "segments decode exactly when they are within the limits");
  require(!count || *count == body.size() / sizeof(Extent), "no segment is lost");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const ByteView body = std::as_bytes(std::span(data, size)).subspan(1);
  switch (data[0] % 20) {
    case 0: check<wire::Hello>(body); break;
    case 1: check<wire::HelloReply>(body); break;
    case 2: check<wire::Proof>(body); break;
    case 3: check<wire::ProofReply>(body); break;
    case 4: check<wire::Grant>(body); break;
    case 5: check<wire::NodeLoad>(body); break;
    case 6: check<wire::GrantReply>(body); break;
    case 7: check<wire::GiveBack>(body); break;
    case 8: check<wire::ShareReply>(body); break;
    case 9: check<wire::Map>(body); break;
    case 10: check<wire::StatusReply>(body); break;
    case 11: check_header(body); break;
    case 12: check<wire::AskedReply>(body); break;
    case 13: check<wire::Lend>(body); break;
    case 14: check<wire::MapReply>(body); break;
    case 15: check<wire::Ticket>(body); break;
    case 16: check<wire::TicketReply>(body); break;
    case 17: check<wire::Pull>(body); break;
    case 18: check<wire::PulledReply>(body); break;
    default: check_segments(body); break;
  }
  return 0;
}
