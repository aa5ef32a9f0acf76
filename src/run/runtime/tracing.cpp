#include "run/runtime/tracing.h"

#include <sys/mman.h>

#include <algorithm>

#include "base/clock.h"
#include "base/own_place.h"
#include "run/runtime/profile.h"

namespace comex::runtime {
namespace {

constexpr bool is(Served served, Origin origin) {
  return static_cast<unsigned>(served) == static_cast<unsigned>(origin);
}
static_assert(is(Served::already, Origin::already) && is(Served::zeros, Origin::zeros) &&
              is(Served::written, Origin::written) && is(Served::staged, Origin::staged) &&
              is(Served::buffered, Origin::buffered) && is(Served::remote, Origin::remote) &&
              is(Served::lost, Origin::lost) && is(Served::failed, Origin::failed));
static_assert(Record::kName == TraceRing::kName);

std::uint64_t now() noexcept {
  const auto since = static_cast<std::uint64_t>(Nanos(Clock::now().time_since_epoch()).count());
  return since - process.room->trace_start.load(std::memory_order_relaxed);
}

}  // namespace

TraceRing* map_rings(int file) noexcept {
  constexpr std::size_t kBytes = Room::kAccounts * sizeof(TraceRing);
  void* const rings = mmap(OwnPlace::take(kBytes), kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file,
                           static_cast<off_t>(Room::rings_at()));
  if (rings == MAP_FAILED) return nullptr;
  madvise(rings, kBytes, MADV_DONTDUMP);
  return static_cast<TraceRing*>(rings);
}

void begin_trace() noexcept {
  if (process.rings == nullptr) return;
  process.trace = process.rings + (process.owned - process.room->accounts.data());
  const std::uint64_t time = now();
  process.trace->begin(time, name_of_program());
  note_program(*process.trace, time);
  process.owned->traced.store(true, std::memory_order_release);
}

void put_into_trace(PageNo page, bool write, Served served, const Faulter& faulter, std::uint32_t thread) noexcept {
  if (served == Served::not_ours) return;
  const auto most = [](std::uint32_t count) {
    return static_cast<std::uint8_t>(std::min(count, TraceFault::kMostAlong));
  };
  process.trace->put(TraceFault{.time = now(),
                                .page = page.value,
                                .thread = thread,
                                .origin = static_cast<Origin>(served),
                                .write = write,
                                .along = most(faulter.along),
                                .around = most(faulter.around)});
}

}  // namespace comex::runtime
