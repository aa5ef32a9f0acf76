#include "pager/page_table.h"

#include <algorithm>
#include <mutex>
#include <new>

namespace comex {

Expected<std::unique_ptr<PageTable>> PageTable::create(Memory& memory, std::size_t seal_bytes) {
  std::byte* const root = memory.own(kRootSize * sizeof(std::atomic<Word*>));
  if (root == nullptr) return Error{Errc::no_memory, "no memory for the page table"};
  return std::unique_ptr<PageTable>(new PageTable(memory, root, seal_bytes));
}

PageTable::PageTable(Memory& memory, std::byte* root, std::size_t seal_bytes)
    : memory_(memory), root_(reinterpret_cast<std::atomic<Word*>*>(root)), seal_bytes_(seal_bytes) {}

Errc PageTable::cover(PageRun pages) noexcept {
  if (pages.count == 0) return Errc::ok;
  if ((pages.end() + (kLeafPages - 1)).value >> kLeafShift > kRootSize) return Errc::invalid;
  const std::lock_guard lock(growing_);
  for (std::uint64_t i = pages.first.value >> kLeafShift; i <= (pages.end().value - 1) >> kLeafShift; ++i) {
    if (root_[i].load(std::memory_order_relaxed) != nullptr) continue;
    std::byte* const leaf = memory_.own(kLeafPages * (sizeof(Word) + seal_bytes_));
    if (leaf == nullptr) return Errc::no_memory;
    root_[i].store(reinterpret_cast<Word*>(leaf), std::memory_order_release);
  }
  return Errc::ok;
}

PageTable::Word* PageTable::find(PageNo page) const noexcept {
  const std::uint64_t index = page.value >> kLeafShift;
  if (index >= kRootSize) return nullptr;
  Word* const leaf = root_[index].load(std::memory_order_acquire);
  return leaf == nullptr ? nullptr : leaf + (page.value & (kLeafPages - 1));
}

Entry PageTable::load(PageNo page) const noexcept {
  const Word* const word = find(page);
  return word == nullptr ? Entry() : Entry(word->load(std::memory_order_seq_cst));
}

std::byte* PageTable::seal(PageNo page) const noexcept {
  Word* const leaf = root_[page.value >> kLeafShift].load(std::memory_order_acquire);
  return reinterpret_cast<std::byte*>(leaf + kLeafPages) + (page.value & (kLeafPages - 1)) * seal_bytes_;
}

bool PageTable::try_lock(Word& word, PageState state, Entry* was) noexcept {
  std::uint64_t seen = word.load(std::memory_order_relaxed);
  while (!Entry(seen).busy() && Entry(seen).is(state)) {
    // seq_cst: eviction locks a page and then looks for pins; a pin is set and then the page is looked at.
    if (!word.compare_exchange_weak(seen, seen | Entry::kBusy, std::memory_order_seq_cst)) continue;
    if (was != nullptr) *was = Entry(seen);
    return true;
  }
  return false;
}

Entry PageTable::lock(PageNo page, Word& word) noexcept {
  for (;;) {
    const Entry seen(word.load(std::memory_order_acquire));
    // What counts is what it is when it is taken: between the look and that, a clean page may have been written.
    Entry was;
    if (seen.busy()) {
      wait(page, word, seen);
    } else if (try_lock(word, seen.state(), &was)) {
      return was;
    }
  }
}

void PageTable::unlock(PageNo page, Word& word, Entry entry) noexcept {
  std::uint64_t seen = word.load(std::memory_order_relaxed);
  while (!word.compare_exchange_weak(seen, (seen & Entry::kKept) | entry.bits(), std::memory_order_seq_cst)) {
  }
  if ((seen & Entry::kWaited) != 0) bucket(page).advance();
}

void PageTable::unlock(PageNo page, Word& word) noexcept {
  const std::uint64_t seen = word.fetch_and(~(Entry::kBusy | Entry::kWaited), std::memory_order_seq_cst);
  if ((seen & Entry::kWaited) != 0) bucket(page).advance();
}

void PageTable::set(Word& word, Entry entry) noexcept {
  constexpr std::uint64_t kOthers = Entry::kKept | Entry::kBusy | Entry::kWaited;
  std::uint64_t seen = word.load(std::memory_order_relaxed);
  while (!word.compare_exchange_weak(seen, (seen & kOthers) | entry.bits(), std::memory_order_seq_cst)) {
  }
}

void PageTable::mark(Word& word, Mark mark) noexcept {
  // Only we change it: what is there now is there still when it is turned into the other.
  const std::uint64_t change =
      std::uint64_t{static_cast<std::uint8_t>(Entry(word.load(std::memory_order_relaxed)).mark().value ^ mark.value)};
  if (change != 0) word.fetch_xor(change << Entry::kMarkShift, std::memory_order_relaxed);
}

void PageTable::revise(Word& word, bool revised) noexcept {
  if (revised) {
    word.fetch_or(Entry::kRevised, std::memory_order_relaxed);
  } else {
    word.fetch_and(~Entry::kRevised, std::memory_order_relaxed);
  }
}

void PageTable::wait(PageNo page, Word& word, Entry seen) noexcept {
  constexpr int kTries = 200;  // a fault served from staging or shared memory takes about as long
  const auto over = [&] {
    const Entry now(word.load(std::memory_order_acquire));
    return !now.busy() || now.state() != seen.state();
  };
  for (int i = 0; i < kTries; ++i) {
    if (over()) return;
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
  const auto ticket = bucket(page).current();
  const std::uint64_t before = word.fetch_or(Entry::kWaited, std::memory_order_seq_cst);
  // If it was let go in between, the mark stays with an entry that nobody has: harmless, the next unlock clears it.
  if (!Entry(before).busy() || over()) return;
  // The cap is for landed(), which changes the state without a wake-up.
  bucket(page).wait(ticket, Clock::now() + Millis(1));
}

}  // namespace comex
