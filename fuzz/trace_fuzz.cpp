// The file of a trace, or of a profile, from anywhere. Whatever is read of it means the same when it is written out and
// read again. Of a trace, what is added up is all there, and every page has its place in a drawing.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "fuzz/require.h"
#include "trace/address_map.h"
#include "trace/encoder.h"
#include "trace/profile.h"
#include "trace/reader.h"
#include "trace/report.h"
#include "trace/summary.h"

namespace {

using namespace comex;
using fuzz::require;

// Writes down what it is told, and counts it.
struct Copying final : TraceVisitor {
  void process(const TraceProcess& process) override {
    require(process.name.size() <= UINT16_MAX, "a name has a length");
    pids.push_back(process.pid);
    encoder.process(process);
  }
  void fault(const TraceFault& fault) override {
    require(is_origin(static_cast<unsigned>(fault.origin)), "a fault was served from somewhere");
    require(fault.along <= TraceFault::kMostAlong && fault.around <= TraceFault::kMostAlong,
            "no more pages come along than can");
    faults.push_back(fault);
    encoder.faults(fault.process, std::span(&fault, 1));
  }
  void dropped(std::uint32_t process, std::uint64_t time, std::uint64_t count) override {
    lost += count;
    encoder.dropped(process, time, count);
  }

  TraceEncoder encoder;
  std::vector<TraceFault> faults;
  std::vector<std::uint32_t> pids;
  std::uint64_t lost = 0;
};

void check_again(const TraceHeader& header, Copying& first) {
  TraceEncoder head;
  head.header(header);
  std::vector<std::byte> bytes = head.take();
  const auto rest = first.encoder.take();
  bytes.insert(bytes.end(), rest.begin(), rest.end());
  const auto reader = TraceReader::open(bytes);
  require(reader && reader->header() == header, "a header written out is read as the same");
  Copying second;
  const auto cut = reader->read(second);
  require(cut && !*cut, "what was read makes sense, and is whole");
  require(second.faults == first.faults && second.pids == first.pids && second.lost == first.lost,
          "a trace written out is read as the same");
}

void check_summary(const TraceReader& reader, const Copying& seen) {
  const auto summary = summarise(reader, {});
  require(summary.has_value(), "what can be read can be added up");
  const TraceFigures all = summary->figures();
  require(all.faults() == seen.faults.size() && summary->dropped() == seen.lost, "nothing is left out");
  std::uint64_t in_regions = 0;
  std::vector<PageSpan> spans;
  for (const TraceRegion& region : summary->regions) {
    in_regions += region.faults;
    spans.push_back({region.first, region.last});
  }
  require(in_regions == seen.faults.size(), "every fault is in a region");
  const AddressMap map(std::move(spans), reader.header().page_size);
  for (const TraceFault& fault : seen.faults) {
    const double place = map.place(fault.page);
    require(place >= 0 && place <= 1, "every page has its place");
  }
  require(map.ticks(0.03).size() < 100, "there is room for the labels");
  require(!to_text(*summary).empty() && !to_json(*summary).empty(), "it can be told");
}

bool is_profile(std::span<const std::byte> bytes) {
  const auto magic = std::as_bytes(std::span(Profile::kMagic));
  return bytes.size() >= magic.size() && std::equal(magic.begin(), magic.end(), bytes.begin());
}

// Its sum is made right: nobody would guess it.
void check_profile(std::span<const std::byte> input) {
  std::vector<std::byte> bytes(input.begin(), input.end());
  const std::uint64_t sum = fingerprint(bytes);
  const auto raw = std::as_bytes(std::span(&sum, 1));
  bytes.insert(bytes.end(), raw.begin(), raw.end());
  const auto profile = decode_profile(bytes);
  if (!profile) {
    require(profile.error().code == Errc::invalid && !profile.error().message.empty(), "a refusal says why");
    return;
  }
  require(profile->processes.size() <= Profile::kMostProcesses && profile->faults() <= input.size(),
          "it has no more than there is room for");
  const auto again = decode_profile(encode_profile(*profile));
  require(again && *again == *profile, "a profile written out is read as the same");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (const auto bytes = std::as_bytes(std::span(data, size)); is_profile(bytes)) {
    check_profile(bytes);
    return 0;
  }
  const auto reader = TraceReader::open(std::as_bytes(std::span(data, size)));
  if (!reader) {
    require(reader.error().code == Errc::invalid && !reader.error().message.empty(), "a refusal says why");
    return 0;
  }
  Copying seen;
  const auto cut = reader->read(seen);
  check_again(reader->header(), seen);
  if (cut) check_summary(*reader, seen);
  return 0;
}
