#include "pager/memory.h"

namespace comex {

// A run at a time, with the holes in it, which nobody can fill meanwhile: one shootdown instead of many.
Seized Memory::seize(BlockNo block, Slots locked, Slots wanted, Slots /*leaving*/, Slots beside) noexcept {
  Seized seized{.block = block};
  bool guarded = true;
  for_each_run(block, locked | beside, wanted, [&](PageRun run) {
    guarded = guarded && guard(run) == Errc::ok;
    seized.fenced |= beside & slots_below(static_cast<std::uint32_t>(run.count)) << (run.first - block.first());
  });
  if (!guarded) {
    release(seized, wanted);
    return seized;
  }
  seized.pages = wanted;
  for_each_slot(wanted, [&](std::uint32_t slot) { seized.bytes[slot] = bytes(block.first() + slot); });
  return seized;
}

Errc Memory::peek(PageNo, std::byte*) noexcept {
  return Errc::unsupported;
}

void Memory::release(const Seized& seized, Slots back) noexcept {
  for_each_run(seized.block, back, back, [&](PageRun run) {
    if (unguard(run) == Errc::ok) return;
    // Not all of it is there any more: a page at a time, so that the rest is not guarded behind the entries' back.
    for (std::uint64_t i = 0; i < run.count; ++i) (void)unguard(PageRun{run.first + i, 1});
  });
}

}  // namespace comex
