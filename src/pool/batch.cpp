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

void Homes::lay(std::uint32_t first, const Run& run, Code code) {
  const std::uint32_t count = run.count / code.data;
  const std::uint32_t before = first / code.data;
  for (std::uint32_t i = 0; i < run.count; ++i) {
    const std::uint32_t row = i / count;
    const std::uint32_t column = i % count;
    const Slots bit = Slots{1} << (first + i);
    at[first + i] = run.at(column * code.data + row);
    starts = column == 0 ? starts | bit : starts & ~bit;
    if (row > 0) continue;
    columns[before + column] = {static_cast<std::uint8_t>(first + column), static_cast<std::uint8_t>(count)};
    const Slots column_bit = Slots{1} << (before + column);
    column_starts = column == 0 ? column_starts | column_bit : column_starts & ~column_bit;
  }
  placed |= slots_below(run.count) << first;
}

bool Target::continues(const Segment& segment, const std::byte* memory, std::uint32_t slot) const {
  const bool near = segment.local + segment.count * kPageSize == memory + slot * kPageSize;
  return near && segment.first + segment.count == at[slot].frame;
}

void Target::prepare(Slots starts, std::byte* memory) {
  write_count = 0;
  std::uint32_t used = 0;  // segments
  for (Slots left = slots; left != 0; left &= ~writes[write_count++].slots) {
    Write& write = writes[write_count];
    write.node = at[static_cast<std::uint32_t>(std::countr_zero(left))].node;
    write.slots = 0;
    const std::uint32_t first = used;
    for_each_slot(left, [&](std::uint32_t slot) {
      if (at[slot].node != write.node) return;
      write.slots |= Slots{1} << slot;
      const bool start = (starts >> slot & 1) != 0;
      if (used > first && !start && continues(segments[used - 1], memory, slot)) {
        ++segments[used - 1].count;
      } else {
        segments[used++] = Segment{at[slot].frame, 1, memory + slot * kPageSize};
      }
    });
    write.transfer.direction = Direction::write;
    write.transfer.priority = Priority::bulk;
    write.transfer.segments = std::span(segments).subspan(first, used - first);
  }
}

}  // namespace comex
