// How a batch leaves whose pages are coded: in whole columns, each of which is written once.
#include <bit>
#include <cstring>
#include <utility>

#include "pool/staging.h"

namespace comex {

// Sees to it that all columns have frames that can be written. False if there are too few; those that it has it keeps.
bool Staging::find_columns(Batch& batch) noexcept {
  const std::uint32_t need = used(batch);
  for (unsigned attempt = 0; attempt < config_.attempts; ++attempt) {
    for (auto have = static_cast<std::uint32_t>(std::popcount(batch.homes.placed)); have < need;) {
      Run run = std::exchange(batch.run, Run{});
      if (run.count == 0) run = frames_.take(need - have).value_or(Run{});
      if (run.count == 0) return false;
      batch.homes.lay(have, run, code_);
      have += run.count;
    }
    if (look_up_columns(batch)) return true;
    release(batch, batch.homes.placed);
  }
  return false;
}

// Looks where the columns are to be written. False if one of them cannot be.
bool Staging::look_up_columns(Batch& batch) noexcept {
  const std::uint32_t need = used(batch);
  Target& data = batch.targets[0];
  data.slots = slots_below(need);
  for (std::uint32_t slot = 0; slot < need; ++slot) {
    const Places places = frames_.places_of(batch.homes.at[slot]);
    if (places.count == 0) return false;
    data.at[slot] = places.at[0];
  }
  for (std::uint32_t which = 0; which < code_.parity; ++which) batch.targets[1 + which].slots = 0;
  for (std::uint32_t i = 0; i < need / code_.data; ++i) {
    const Places places = frames_.parity_of(batch.homes.at[batch.homes.columns[i].slot(0)]);
    for (std::uint32_t which = 0; which < places.count; ++which) {
      Target& parity = batch.targets[1 + which];
      if (places.at[which].node == kNowhere) continue;
      parity.at[i] = places.at[which];
      parity.slots |= Slots{1} << i;
    }
  }
  return true;
}

// What has no page any more is as it was; what never had one is zeros.
void Staging::encode(Batch& batch) noexcept {
  const Erasure erasure(code_);
  std::byte* const memory = memory_of(batch);
  const std::uint32_t need = used(batch);
  std::memset(memory + batch.count * kPageSize, 0, (need - batch.count) * kPageSize);
  for (std::uint32_t which = 0; which < code_.parity; ++which) {
    const Factors row = erasure.row(code_.data + which);
    for (std::uint32_t i = 0; i < need / code_.data; ++i) {
      Pages pages{};
      for (std::uint32_t k = 0; k < code_.data; ++k) pages[k] = memory + batch.homes.columns[i].slot(k) * kPageSize;
      erasure.combine(row, pages, parity_of(batch, which) + i * kPageSize);
    }
  }
}

}  // namespace comex
