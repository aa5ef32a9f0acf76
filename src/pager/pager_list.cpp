// How pages are asked for that lie anywhere, because it is known which will be needed next. They go to the read buffer,
// a read for each node, in the order of their frames: neighbours there are one piece of it.
#include <algorithm>
#include <array>
#include <optional>

#include "pager/pager.h"

namespace comex {

// Pages of a list that are worth asking for, as far as can be seen without locking them.
struct Pager::Listed {
  struct Page {
    PageNo number;
    Word* word;
    Location where;
  };
  std::array<Page, Plan::kListed> pages;
  std::uint32_t count = 0;
};
static_assert(Plan::kListed <= ReadBuffer::kGroupPages);

void Pager::ask_for_list(const Miss& miss, const Plan& plan, Faulter& faulter) noexcept {
  if (plan.listed == 0) return;
  Listed listed;
  for (std::uint32_t i = 0; i < std::min(plan.listed, Plan::kListed); ++i) {
    const auto page = prefetcher_.listed(plan.listed_at + i);
    Word* const word = page ? table_->find(*page) : nullptr;
    if (word == nullptr) continue;
    const Entry entry(word->load(std::memory_order_relaxed));
    if (!entry.is(PageState::remote) || entry.busy()) continue;
    const Location place = frames_.place_of(entry.location());
    if (!can_be_asked_for(place) || frames_.is_near(place.node) || buffer_.has(*page)) continue;
    listed.pages[listed.count++] = {*page, word, place};
  }
  std::uint32_t asked = 0;
  while (listed.count > 0) {
    const auto some = ask_for_some(listed);
    // Too many reads are under way: if none is for this list, it is for the next fault to ask.
    if (!some && asked == 0) return;
    if (!some) break;
    asked += *some;
  }
  PagerStats::add(stats_of(faulter).pages_around, asked);
  faulter.around += asked;
  with_history(faulter, [&](History& history) {
    prefetcher_.brought(history, miss, plan, Brought{.pages = asked, .mapped = false, .listed = true});
  });
}

// Takes those off the list that are at the node of the first, and asks for them. Returns for how many; nothing if no
// read can be begun.
std::optional<std::uint32_t> Pager::ask_for_some(Listed& listed) noexcept {
  const NodeId node = listed.pages[0].where.node;
  auto coming = buffer_.prepare();
  if (!coming) return std::nullopt;
  const auto begin = listed.pages.begin();
  const auto end = begin + listed.count;
  const auto others = std::partition(begin, end, [&](const auto& page) { return page.where.node == node; });
  std::array<Listed::Page, Plan::kListed> locked;
  std::uint32_t count = 0;
  for (auto page = begin; page != others; ++page) {
    Entry was;
    if (!table_->try_lock(*page->word, PageState::remote, &was)) continue;
    const Location place = frames_.place_of(was.location());
    if (place.node == node && !was.hidden() && !buffer_.has(page->number)) {
      locked[count++] = {page->number, page->word, place};
    } else {
      table_->unlock(page->number, *page->word);
    }
  }
  listed.count = static_cast<std::uint32_t>(std::move(others, end, begin) - begin);
  std::sort(locked.begin(), locked.begin() + count,
            [](const auto& a, const auto& b) { return a.where.frame < b.where.frame; });
  for (std::uint32_t i = 0; i < count; ++i) (void)coming->add(locked[i].number, locked[i].where);
  coming->begin();
  for (std::uint32_t i = 0; i < count; ++i) table_->unlock(locked[i].number, *locked[i].word);
  return count;
}

}  // namespace comex
