#include "run/runtime/messages.h"

#include "run/fault_messages.h"
#include "run/runtime/evictor.h"
#include "run/runtime/faults.h"
#include "run/runtime/process.h"

namespace comex::runtime {
namespace {

// One that waits for the network must not keep those waiting that need not.
constexpr std::size_t kThreads = 2;

constinit Faulter faulters[kThreads];

}  // namespace

bool Messages::start() noexcept {
  if (process.memory.delivery() != Delivery::message) return true;
  for (Faulter& faulter : faulters) {
    if (!equip(faulter) || process.own_threads.start(&serve_for_ever, &faulter) != Errc::ok) return false;
  }
  return true;
}

void Messages::serve_for_ever(void* argument) {
  Faulter& faulter = *static_cast<Faulter*>(argument);
  std::uint32_t depth = 0;
  for (;;) {
    process.memory.wait_for_touch();
    const Inside serving(process.messages.serving_, depth);
    UffdMemory::Touch touch;
    const Errc next = process.memory.next_touch(&touch);
    if (next == Errc::busy) continue;
    if (next != Errc::ok) stop("the program's faults cannot be heard of any more (was a descriptor of comex closed?)");
    (void)resolved(answer(touch, process.memory, *process.pager, faulter));
    wake_evictor();
  }
}

}  // namespace comex::runtime
