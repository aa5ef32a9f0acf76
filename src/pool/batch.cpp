#include "pool/batch.h"

namespace comex {

Slots Homes::assign(Slots slots, const Run& run) {
  Slots given = 0;
  for (std::uint32_t i = 0; i < run.count; ++i) {
    const auto slot = static_cast<std::uint32_t>(std::countr_zero(slots));
    const Slots bit = Slots{1} << slot;
    slots &= ~bit;
    given |= bit;
    at[slot] = run.at(i);
    starts = i == 0 ? starts | bit : starts & ~bit;
  }
  placed |= given;
  return given;
}

bool Target::continues(const Segment& segment, const std::byte* memory, std::uint32_t slot) const {
  const bool near = segment.local + segment.count * kPageSize == memory + slot * kPageSize;
  return near && segment.first + segment.count == at[slot].frame;
}

void Target::prepare(Slots starts, std::byte* memory) {
  write_count = 0;
  std::uint32_t used = 0;   // segments
  std::uint32_t first = 0;  // segment of the current write
  for_each_slot(slots, [&](std::uint32_t slot) {
    const NodeId node = at[slot].node;
    if (write_count == 0 || writes[write_count - 1].node != node) {
      Write& fresh = writes[write_count++];
      fresh.node = node;
      fresh.slots = 0;
      first = used;
    }
    Write& write = writes[write_count - 1];
    write.slots |= Slots{1} << slot;
    const bool start = (starts >> slot & 1) != 0;
    if (used > first && !start && continues(segments[used - 1], memory, slot)) {
      ++segments[used - 1].count;
    } else {
      segments[used++] = Segment{at[slot].frame, 1, memory + slot * kPageSize};
    }
    write.transfer.direction = Direction::write;
    write.transfer.priority = Priority::bulk;
    write.transfer.segments = std::span(segments).subspan(first, used - first);
  });
}

}  // namespace comex
