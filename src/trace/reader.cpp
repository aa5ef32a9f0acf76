#include "trace/reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <unordered_set>

#include "trace/varint.h"
#include "wire/codec.h"

namespace comex {
namespace {

// 0 if there is none.
bool get_count(wire::Reader& from, bool there, std::uint8_t& count) {
  const auto found = there ? get_varint(from) : std::optional<std::uint64_t>(0);
  if (!found || *found > TraceFault::kMostAlong) return false;
  count = static_cast<std::uint8_t>(*found);
  return true;
}

enum class Outcome { fine, cut, wrong };

// A record that ends too early, in a chunk that is whole, is as wrong as any other.
Outcome short_or_wrong(const wire::Reader& from) {
  return from.ok() ? Outcome::wrong : Outcome::cut;
}

Outcome read_record(wire::Reader& from, bool first, TraceFault& fault) {
  const unsigned what = from.get<std::uint8_t>();
  fault.origin = static_cast<Origin>(what & TraceBits::kOrigin);
  fault.write = (what & TraceBits::kWrite) != 0;
  if ((what & TraceBits::kThread) != 0) {
    const auto thread = get_varint(from);
    if (!thread || *thread > UINT32_MAX) return short_or_wrong(from);
    fault.thread = static_cast<std::uint32_t>(*thread);
  } else if (first) {
    return short_or_wrong(from);
  }
  const bool counted = get_count(from, (what & TraceBits::kAlong) != 0, fault.along) &&
                       get_count(from, (what & TraceBits::kAround) != 0, fault.around);
  if (!counted) return short_or_wrong(from);
  if (!add_difference(from, fault.time) || !add_difference(from, fault.page)) return short_or_wrong(from);
  constexpr std::uint64_t kPages = std::uint64_t{1} << 52;
  return is_origin(what & TraceBits::kOrigin) && fault.page < kPages ? Outcome::fine : Outcome::wrong;
}

// One chunk after the other, with what is known of processes.
class Chunks {
 public:
  explicit Chunks(TraceVisitor& visitor) : visitor_(visitor) {}

  Outcome read(TraceChunk kind, wire::Reader body) {
    const auto number = body.get<std::uint32_t>();
    if (!body.ok()) return Outcome::cut;
    if (kind == TraceChunk::process) return read_process(number, body);
    if (!known_.contains(number)) return Outcome::wrong;
    if (kind == TraceChunk::faults) return read_faults(number, body);
    if (kind == TraceChunk::dropped) return read_dropped(number, body);
    return Outcome::wrong;
  }

 private:
  Outcome read_process(std::uint32_t number, wire::Reader body) {
    TraceProcess process{.number = number,
                         .pid = body.get<std::uint32_t>(),
                         .time = body.get<std::uint64_t>(),
                         .name = body.get_string()};
    if (!body.finished()) return short_or_wrong(body);
    known_.insert(number);
    visitor_.process(process);
    return Outcome::fine;
  }
  Outcome read_faults(std::uint32_t number, wire::Reader body) {
    TraceFault fault;
    fault.process = number;
    fault.time = body.get<std::uint64_t>();
    fault.page = body.get<std::uint64_t>();
    if (!body.ok()) return Outcome::cut;
    for (bool first = true; body.left() > 0; first = false) {
      if (const Outcome outcome = read_record(body, first, fault); outcome != Outcome::fine) return outcome;
      visitor_.fault(fault);
    }
    return Outcome::fine;
  }
  Outcome read_dropped(std::uint32_t number, wire::Reader body) {
    const auto time = body.get<std::uint64_t>();
    const auto count = body.get<std::uint64_t>();
    if (!body.finished()) return short_or_wrong(body);
    visitor_.dropped(number, time, count);
    return Outcome::fine;
  }

  TraceVisitor& visitor_;
  std::unordered_set<std::uint32_t> known_;
};

}  // namespace

Expected<TraceReader> TraceReader::open(std::span<const std::byte> bytes) {
  const auto magic = std::as_bytes(std::span(TraceHeader::kMagic));
  if (bytes.size() < magic.size() || !std::equal(magic.begin(), magic.end(), bytes.begin())) {
    return Error{Errc::invalid, "it is no trace of comex"};
  }
  wire::Reader from(bytes.subspan(magic.size()));
  const auto version = from.get<std::uint16_t>();
  if (from.ok() && version != TraceHeader::kVersion) {
    return Error{Errc::invalid,
                 fmt::format("it is a trace of version {}, and this comex reads {}", version, TraceHeader::kVersion)};
  }
  TraceReader reader;
  reader.header_ = TraceHeader{.page_size = from.get<std::uint32_t>(),
                               .start = from.get<std::uint64_t>(),
                               .local = from.get<std::uint64_t>(),
                               .command = from.get_string()};
  if (!from.ok()) return Error{Errc::invalid, "it is a trace that ends before it begins"};
  const std::uint32_t page = reader.header_.page_size;
  if (page == 0 || (page & (page - 1)) != 0) return Error{Errc::invalid, "it is a trace with no size of pages"};
  reader.chunks_ = bytes.last(from.left());
  return reader;
}

Expected<bool> TraceReader::read(TraceVisitor& visitor) const {
  Chunks chunks(visitor);
  for (auto rest = chunks_; !rest.empty();) {
    wire::Reader head(rest);
    const auto kind = head.get<std::uint8_t>();
    const auto length = head.get<std::uint32_t>();
    if (!head.ok()) return true;
    const bool whole = length <= head.left();
    const auto body = rest.last(head.left()).first(whole ? length : head.left());
    const Outcome outcome = chunks.read(static_cast<TraceChunk>(kind), wire::Reader(body));
    if (outcome == Outcome::wrong || (outcome == Outcome::cut && whole)) {
      return Error{Errc::invalid, fmt::format("it makes no sense {} bytes before its end", rest.size())};
    }
    if (!whole) return true;
    rest = rest.subspan(rest.size() - head.left() + length);
  }
  return false;
}

}  // namespace comex
