// Pages that are away, and are to be written elsewhere for the sake of the frames beside theirs: see "Coded pages" in
// docs/design-notes.md.
#include <algorithm>
#include <array>

#include "pager/pager.h"

namespace comex {
namespace {

constexpr std::uint32_t kAtOnce = 32;         // pages that are read together
constexpr std::uint32_t kMostLooks = 16'384;  // at pages, in one go: they take as long as some reads do
constexpr Millis kTidyAgain{500};             // after a look at all pages that found none

}  // namespace

// Pages that this thread has locked, all of them remote.
struct Pager::Worn {
  std::uint32_t count = 0;
  std::array<Tag, kAtOnce> pages;
  std::array<Word*, kAtOnce> words;
};

void Pager::tidy() noexcept {
  if (!frames_.tidies() || full() || Clock::now() < tidy_at_) return;
  Worn worn;
  std::uint32_t looks = 0;
  const auto look = [&](PageNo page, Word& word) {
    Entry entry(word.load(std::memory_order_relaxed));
    const bool candidate = entry.is(PageState::remote) && !entry.busy() && frames_.is_worn(entry.location());
    if (candidate && table_->try_lock(word, PageState::remote, &entry)) {
      worn.pages[worn.count] = page.value;
      worn.words[worn.count++] = &word;
    }
    return worn.count < kAtOnce && ++looks < kMostLooks;
  };
  const PageNo end = PageTable::kEverything.end();
  tidied_ = table_->for_each_while(PageRun{tidied_, end - tidied_}, look);
  found_worn_ = found_worn_ || worn.count > 0;
  if (tidied_ == end) {
    tidied_ = PageNo{};
    if (!std::exchange(found_worn_, false)) tidy_at_ = Clock::now() + kTidyAgain;
  }
  move_elsewhere(worn);
}

// As they came: what is sealed stays so. What cannot be read, or is wrong, is left to whoever wants it.
void Pager::move_elsewhere(const Worn& worn) noexcept {
  const auto room = staging_->reserve(std::span(worn.pages).first(worn.count));
  const std::uint32_t count = room ? room->count : 0;
  const auto bytes = [&](std::uint32_t i) { return room->memory + i * kPageSize; };
  const auto home = [&](std::uint32_t i) { return Entry(worn.words[i]->load(std::memory_order_relaxed)).location(); };
  Slots left = slots_below(count);
  if (count > 0) {
    const Reading reading(frames_);
    Reads<kAtOnce> reads;
    for (std::uint32_t i = 0; i < count; ++i) {
      if (reads.add(frames_.place_of(home(i)), bytes(i))) left &= ~(Slots{1} << i);
    }
    reads.begin(frames_, Priority::bulk);
    if (reads.wait(frames_) != Errc::ok) left = slots_below(count);
  }
  alignas(kPageSize) std::array<std::byte, kPageSize> opened;
  std::array<Location, kAtOnce> homes;
  for (std::uint32_t i = 0; i < count; ++i) {
    if ((left >> i & 1) != 0) continue;
    std::copy_n(bytes(i), kPageSize, opened.data());
    if (!sealer_.open(opened.data(), table_->seal(PageNo{worn.pages[i]}))) {
      left |= Slots{1} << i;
      continue;
    }
    homes[i] = home(i);
    buffer_.drop(PageNo{worn.pages[i]});
    // Before commit(): it may land inside.
    PageTable::set(*worn.words[i], Entry(PageState::staged));
  }
  if (count > 0) staging_->commit(*room, left);
  for (std::uint32_t i = 0; i < worn.count; ++i) {
    if (i < count && (left >> i & 1) == 0) release(homes[i]);
    table_->unlock(PageNo{worn.pages[i]}, *worn.words[i]);
  }
}

}  // namespace comex
