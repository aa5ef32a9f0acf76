// The page table: an Entry for each page that the program has or may touch, and its seal, if pages have seals
// (pager/seal/sealer.h). 8 bytes a page and those of the seal, in leaves of 64 MiB of address space that exist where
// there is something of ours: the entries, then the seals.
//
//   47-bit address  =  | 21 bits: root | 14 bits: leaf | 12 bits: page |
//
// Thread safety: all functions from any thread. Leaves are added, never taken away.
// Fault path: everything but create() and cover().
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>

#include "base/clock.h"
#include "base/mutex.h"
#include "pager/entry.h"
#include "pager/memory.h"
#include "pager/page.h"
#include "pool/event_count.h"

namespace comex {

class PageTable {
 public:
  using Word = std::atomic<std::uint64_t>;
  static constexpr unsigned kLeafShift = 14;
  static constexpr std::uint64_t kLeafPages = std::uint64_t{1} << kLeafShift;  // their entries are one array

  // Errc::no_memory.
  static Expected<std::unique_ptr<PageTable>> create(Memory& memory, std::size_t seal_bytes = 0);

  // Makes sure that there are entries for these pages.
  Errc cover(PageRun pages) noexcept;
  // The entry's word, or nullptr where nothing was ever covered.
  [[nodiscard]] Word* find(PageNo page) const noexcept;
  [[nodiscard]] Entry load(PageNo page) const noexcept;
  // Its seal: of the bytes that its frame, or staging, has. REQUIRES: covered, and locked by this thread.
  [[nodiscard]] std::byte* seal(PageNo page) const noexcept;

  // Takes the entry for this thread if it is in this state and nobody has it. `was`: what it was at that moment.
  bool try_lock(Word& word, PageState state, Entry* was = nullptr) noexcept;
  // Takes it whatever it is, waiting for whoever has it. Returns what it was.
  Entry lock(PageNo page, Word& word) noexcept;
  // Sets it to `entry` and lets others at it. REQUIRES: locked by this thread.
  void unlock(PageNo page, Word& word, Entry entry) noexcept;
  // The same, with whatever state it has now.
  void unlock(PageNo page, Word& word) noexcept;
  // Sets it to `entry` and keeps it. REQUIRES: locked by this thread, or the state is staged and this is staging.
  static void set(Word& word, Entry entry) noexcept;
  // Gives it another mark. REQUIRES: locked by this thread.
  static void mark(Word& word, Mark mark) noexcept;
  // Says whether it is revised. REQUIRES: likewise.
  static void revise(Word& word, bool revised) noexcept;
  // Until whoever has it lets it go, or changes its state.
  void wait(PageNo page, Word& word, Entry seen) noexcept;

  // All pages that there could be.
  static constexpr PageRun kEverything{PageNo{0}, std::uint64_t{1} << (47 - kPageShift)};
  // Calls f(PageNo, Word&) for each covered page of the run, in order; skips what is not covered quickly.
  template <typename F>
  void for_each(PageRun pages, F&& f) const {
    (void)for_each_while(pages, [&](PageNo page, Word& word) {
      f(page, word);
      return true;
    });
  }
  // The same, until f returns false. Returns the page behind the last that it was called for, or the end.
  template <typename F>
  PageNo for_each_while(PageRun pages, F&& f) const {
    for (PageNo page = pages.first; page < pages.end();) {
      const PageNo leaf_end{(page.value | (kLeafPages - 1)) + 1};
      const PageNo end = leaf_end < pages.end() ? leaf_end : pages.end();
      Word* const word = find(page);
      for (std::uint64_t i = 0; word != nullptr && i < end - page; ++i) {
        if (!f(page + i, word[i])) return page + (i + 1);
      }
      page = end;
    }
    return pages.end();
  }

 private:
  static constexpr std::uint64_t kRootSize = std::uint64_t{1} << (47 - kPageShift - kLeafShift);
  static constexpr std::size_t kBuckets = 64;

  PageTable(Memory& memory, std::byte* root, std::size_t seal_bytes);
  EventCount& bucket(PageNo page) noexcept { return buckets_[page.value % kBuckets]; }

  Memory& memory_;
  std::atomic<Word*>* const root_;
  const std::size_t seal_bytes_;
  Mutex growing_;                 // orders cover()
  EventCount buckets_[kBuckets];  // who waits for an entry sleeps here
};

}  // namespace comex
