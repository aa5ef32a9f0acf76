#include "trace/encoder.h"

#include <utility>

#include "trace/varint.h"
#include "wire/codec.h"

namespace comex {
namespace {

using Bytes = std::vector<std::byte>;

void put_chunk(Bytes& to, TraceChunk kind, const Bytes& body) {
  wire::Writer writer;
  writer.put(static_cast<std::uint8_t>(kind)).put(static_cast<std::uint32_t>(body.size())).put(wire::ByteView(body));
  const Bytes chunk = writer.take();
  to.insert(to.end(), chunk.begin(), chunk.end());
}

}  // namespace

void TraceEncoder::header(const TraceHeader& header) {
  wire::Writer writer;
  writer.put(std::as_bytes(std::span(TraceHeader::kMagic)))
      .put(TraceHeader::kVersion)
      .put(header.page_size)
      .put(header.start)
      .put(header.local)
      .put(std::string_view(header.command));
  const Bytes encoded = writer.take();
  bytes_.insert(bytes_.end(), encoded.begin(), encoded.end());
}

void TraceEncoder::process(const TraceProcess& process) {
  wire::Writer writer;
  writer.put(process.number).put(process.pid).put(process.time).put(std::string_view(process.name));
  put_chunk(bytes_, TraceChunk::process, writer.take());
}

void TraceEncoder::faults(std::uint32_t process, std::span<const TraceFault> faults) {
  if (faults.empty()) return;
  std::uint64_t time = faults.front().time;
  std::uint64_t page = faults.front().page;
  wire::Writer writer;
  writer.put(process).put(time).put(page);
  Bytes body = writer.take();
  bool first = true;
  std::uint32_t thread = 0;
  for (const TraceFault& fault : faults) {
    const bool other = first || fault.thread != thread;
    const unsigned what = static_cast<unsigned>(fault.origin) | (fault.write ? TraceBits::kWrite : 0) |
                          (other ? TraceBits::kThread : 0) | (fault.along > 0 ? TraceBits::kAlong : 0) |
                          (fault.around > 0 ? TraceBits::kAround : 0);
    body.push_back(static_cast<std::byte>(what));
    if (other) put_varint(body, fault.thread);
    if (fault.along > 0) put_varint(body, fault.along);
    if (fault.around > 0) put_varint(body, fault.around);
    put_difference(body, time, fault.time);
    put_difference(body, page, fault.page);
    first = false;
    thread = fault.thread;
    time = fault.time;
    page = fault.page;
  }
  put_chunk(bytes_, TraceChunk::faults, body);
}

void TraceEncoder::dropped(std::uint32_t process, std::uint64_t time, std::uint64_t count) {
  wire::Writer writer;
  writer.put(process).put(time).put(count);
  put_chunk(bytes_, TraceChunk::dropped, writer.take());
}

std::vector<std::byte> TraceEncoder::take() {
  return std::exchange(bytes_, {});
}

}  // namespace comex
