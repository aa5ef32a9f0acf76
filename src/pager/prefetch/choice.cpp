#include "pager/prefetch/choice.h"

#include "pager/prefetch/automatic.h"
#include "pager/prefetch/leap.h"
#include "pager/prefetch/next.h"
#include "pager/prefetch/none.h"
#include "pager/prefetch/readahead.h"
#include "pager/prefetch/stride.h"

namespace comex {
namespace {

// Made at compile time, and never destroyed: threads of ours may outlive main().
constinit const NoPrefetch none;
constinit const NextPages next;
constinit const Strides stride;
constinit const ReadAhead readahead;
constinit const Leap leap;
constinit const Automatic automatic;

}  // namespace

const Prefetcher& prefetcher_of(Prefetch choice) noexcept {
  switch (choice) {
    case Prefetch::none: return none;
    case Prefetch::next: return next;
    case Prefetch::stride: return stride;
    case Prefetch::readahead: return readahead;
    case Prefetch::leap: return leap;
    case Prefetch::automatic:
    case Prefetch::record: return automatic;
  }
  return automatic;
}

}  // namespace comex
