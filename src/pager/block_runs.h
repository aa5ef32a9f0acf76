// Runs of neighbouring pages in a block.
#pragma once

#include <bit>

#include "pager/page.h"

namespace comex {

// Calls f(PageRun) for the runs of `slots` that have any of `wanted`, from the first such page to the last.
template <typename F>
void for_each_run(BlockNo block, Slots slots, Slots wanted, F&& f) {
  while (slots != 0) {
    const auto first = static_cast<unsigned>(std::countr_zero(slots));
    const auto length = static_cast<unsigned>(std::countr_one(slots >> first));
    const Slots run = slots_below(length) << first;
    slots &= ~run;
    if ((wanted & run) == 0) continue;
    const auto from = static_cast<unsigned>(std::countr_zero(wanted & run));
    const auto to = 64 - static_cast<unsigned>(std::countl_zero(wanted & run));
    f(PageRun{block.first() + from, to - from});
  }
}

}  // namespace comex
