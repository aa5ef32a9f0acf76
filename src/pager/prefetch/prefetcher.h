// What to bring in with a page that was faulted on: the interface of all prefetchers.
//
//   fault --> plan()     which pages should come along, and where to
//             brought()  those that did: pages in other states than the page itself, or at another node, are left out
//
// A page that comes along is mapped at once, and costs nothing more when it is used; or it is asked for and comes into
// the read buffer in time, where it costs a fault, but no room in the budget, and its use is seen. Mapping is for what
// is nearly certain. Where reads take long, what is to be mapped with the next fault is asked for with this one.
//
// Thread safety: a prefetcher has no state of its own; a History is used by one thread at a time. Fault path: yes.
#pragma once

#include <cstdint>
#include <optional>

#include "pager/page.h"
#include "pager/prefetch/history.h"

namespace comex {

// A fault on a page that was not there.
struct Miss {
  enum class From : std::uint8_t { zeros, staging, buffer, node };

  PageNo page;
  From from = From::node;
  bool far = false;  // at a node where one read costs more than its bytes: reading more at once saves something
  bool write = false;
  std::uint32_t one_in = 8;  // of pages that come along, one in so many must be used to be worth it
  std::uint32_t offset = 0;  // where in the page it was, if that is known
};

// Faults that a prefetcher may look away from (Attention). All others tell of what was brought before, or take long.
constexpr bool may_look_away(const Miss& miss) noexcept {
  return !miss.far && (miss.from == Miss::From::node || miss.from == Miss::From::zeros);
}

struct Plan {
  static constexpr std::uint32_t kMost = 31;    // pages, before and after together; a fault brings no more
  static constexpr std::uint32_t kListed = 32;  // pages of a list

  Step step{1};                         // from one page to the next
  std::uint32_t after = 0;              // so many in the direction of the step
  std::uint32_t before = 0;             // ... and against it
  bool mapped = true;                   // or else into the read buffer
  bool written = false;                 // what is mapped will be written to: it is placed as if it had been
  std::uint32_t ahead = 0;              // of a far page: so many beyond those that are mapped are asked for already
  std::uint32_t used = 0;               // pages mapped earlier of which this fault shows that they were used
  std::size_t stream = History::kNone;  // that this is for
  // Besides, a list: pages that lie anywhere, to be asked for and to wait in the read buffer. See listed().
  std::uint32_t listed_at = 0;  // where it begins
  std::uint32_t listed = 0;     // how many
  bool whole = false;           // all of a region that is used whole (prefetch/footprints.h)
  bool known = false;           // the page was where it had been in an earlier run
  bool unknown = false;         // ... or was not, though it could have been

  [[nodiscard]] bool finds_anything() const noexcept { return after + before > 0 || used > 0; }
  // What the next fault of a stream will bring: the page that it is on, and as many as come with this one. Only of a
  // stream that has come so far that it is sure enough.
  void read_ahead() noexcept {
    constexpr std::uint32_t kSure = 8;
    if (after >= kSure) ahead = after + 1;
  }
};

struct Brought {
  std::uint32_t pages = 0;
  std::uint32_t from_buffer = 0;  // of those: had been in the read buffer
  std::uint32_t covered = 0;      // so many steps from the page on are in memory now
  bool mapped = true;             // not always as planned: without room in the budget nothing is mapped ahead
  bool listed = false;            // this is of the list
};

class Prefetcher {
 public:
  // A plan is for a page from zeros or from a node, or in the read buffer; what is planned for others does not happen,
  // nor does what is planned for the read buffer with a page of zeros.
  virtual Plan plan(History& history, const Miss& miss) const noexcept = 0;
  // Called if anything was, and for a list, if it was asked for. The plan is the last of this page; of this history
  // there may have been others since, if it is shared.
  virtual void brought(History&, const Miss&, const Plan&, const Brought&) const noexcept {}
  // The page at this place of a list.
  [[nodiscard]] virtual std::optional<PageNo> listed(std::uint32_t /*place*/) const noexcept { return std::nullopt; }

 protected:
  ~Prefetcher() = default;
};

// For those that plan along the trend of a stream.
inline void cover(History& history, const Miss& miss, const Plan& plan, const Brought& brought) noexcept {
  if (plan.stream >= history.streams.size()) return;
  FaultStream& stream = history.streams[plan.stream];
  // It may be another's by now.
  if (stream.last != miss.page || stream.step != plan.step) return;
  stream.credit = static_cast<std::uint16_t>(brought.pages);
  if (!brought.mapped) return;
  if (!plan.written) {
    stream.writes.placed = static_cast<std::uint16_t>(brought.pages + 1);
    stream.writes.written = miss.write;
  }
  stream.covered = static_cast<std::uint16_t>(brought.covered);
  stream.brought = static_cast<std::uint16_t>(brought.pages);
}

}  // namespace comex
