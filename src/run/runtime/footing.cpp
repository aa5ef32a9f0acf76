#include "run/runtime/footing.h"

namespace comex::runtime {
namespace {

bool is_stack(PageNo page) {
  const Entry entry = process.pager->table().load(page);
  return !entry.is(PageState::none) && !entry.hidden();  // hidden: the guard below a stack
}

// By touching: the handlers bring it, and this thread holds nothing meanwhile.
void touch_until_settled(PageNo page) {
  for (;;) {
    __atomic_fetch_or(reinterpret_cast<unsigned char*>(page.address()), 0, __ATOMIC_SEQ_CST);
    const Entry entry = process.pager->table().load(page);
    // Busy: eviction that looked for pins before ours was there finishes.
    if (!entry.busy() && entry.is(PageState::resident) && !entry.clean()) return;
    sched_yield();
  }
}

}  // namespace

void Footing::secure(PageNo here) noexcept {
  if (!is_stack(here)) return;
  PageRun pages{here, 1};
  while (pages.count < 1 + kAbove && is_stack(pages.end())) ++pages.count;
  for (std::uint64_t i = 0; i < kBelow && is_stack(PageNo{pages.first.value - 1}); ++i) {
    pages = PageRun{PageNo{pages.first.value - 1}, pages.count + 1};
  }
  pins_.add(pages);
  for (PageNo page = pages.first; page < pages.end(); page = page + 1) touch_until_settled(page);
}

}  // namespace comex::runtime
