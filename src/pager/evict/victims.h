// Which pages go next: the interface of the eviction policies.
//
// A policy keeps queues of blocks, for blocks are what can be taken away cheaply; and a mark of six bits with each page
// (Entry::mark), for a block may have one page that is used all the time among many that are not. While a page is
// local, its mark says in which queue its block has to be on its account: a block may be in several queues, and is in
// each at most once (Entry::kQueued). When a block comes out of a queue, its pages of that queue leave, but for those
// that the policy spares.
//
// There are no accessed bits here, and no page is taken away only to see whether it is missed: what a policy learns,
// it learns from faults that happen anyway. A page that is away keeps the mark with which it left. If that says when it
// was, a fault tells how soon the page was missed: see eviction_clock.h.
//
// Thread safety: all functions from any thread. Fault path: all of them.
#pragma once

#include <cstdint>
#include <optional>

#include "pager/entry.h"
#include "pager/page.h"

namespace comex {

struct Victim {
  BlockNo block;
  unsigned queue = 0;

  friend constexpr bool operator==(const Victim&, const Victim&) = default;
};

class Victims {
 public:
  static constexpr unsigned kMostQueues = 2;

  virtual ~Victims() = default;
  // A page becomes local. `left`: the mark that it left with; none if this is its first touch. Returns its mark from
  // now on.
  virtual Mark arrive(PageNo, std::optional<Mark> /*left*/) noexcept { return {}; }
  // In which queue the block of a local page with this mark has to be.
  [[nodiscard]] virtual unsigned queue_of(Mark) const noexcept { return 0; }
  // REQUIRES: the block is not in this queue.
  virtual void admit(BlockNo block, unsigned queue) noexcept = 0;
  // The next to go. It is not in that queue any more. It may have no such page left; the pager looks. `in_vain`:
  // nothing could be taken of the last one; if there is another queue, its turn comes now.
  virtual std::optional<Victim> next(bool in_vain) noexcept = 0;
  // Whether a page whose turn it is stays for now, with the mark that it is given here.
  [[nodiscard]] virtual bool spare(Mark&) const noexcept { return false; }
  // So many pages of that queue leave. Returns the mark that they leave with.
  virtual Mark leave(unsigned /*queue*/, std::uint64_t /*pages*/) noexcept { return {}; }
  // A local page with this mark is not the program's any more, or all zeros again.
  virtual void forget(Mark) noexcept {}
};

}  // namespace comex
