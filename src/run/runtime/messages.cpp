#include "run/runtime/messages.h"

#include <sys/epoll.h>
#include <unistd.h>

#include "run/fault_messages.h"
#include "run/own_descriptors.h"
#include "run/runtime/evictor.h"
#include "run/runtime/faults.h"
#include "run/runtime/process.h"
#include "run/runtime/tracing.h"

namespace comex::runtime {
namespace {

// -1 if it cannot be had.
int watch(int descriptor) {
  const int epoll = epoll_create1(EPOLL_CLOEXEC);
  epoll_event event{};
  event.events = EPOLLIN | EPOLLEXCLUSIVE;
  if (epoll >= 0 && epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor, &event) == 0) return own_descriptors.adopt(epoll);
  if (epoll >= 0) close(epoll);
  return -1;
}

void unwatch(int& epoll) {
  own_descriptors.drop(epoll);
  if (epoll >= 0) close(epoll);
  epoll = -1;
}

}  // namespace

bool Messages::start(const UffdMemory& memory) noexcept {
  for (Handler& handler : handlers_) unwatch(handler.epoll);  // the parent's
  if (memory.delivery() != Delivery::message) return true;
  std::size_t serving = 0;
  for (Handler& handler : handlers_) {
    handler.epoll = watch(memory.fd());
    if (handler.epoll >= 0 && equip(handler.faulter) &&
        process.own_threads.start(&serve_for_ever, &handler) == Errc::ok) {
      ++serving;
    } else {
      unwatch(handler.epoll);  // nobody is there to be woken
    }
  }
  return serving > 0;
}

void Messages::serve_for_ever(void* argument) {
  Handler& handler = *static_cast<Handler*>(argument);
  for (;;) {
    if (process.messages.serve_next(handler.faulter)) continue;
    epoll_event event;
    (void)epoll_wait(handler.epoll, &event, 1, -1);
  }
}

bool Messages::serve_next(Faulter& faulter) noexcept {
  std::uint32_t depth = 0;
  const Inside serving(serving_, depth);
  UffdMemory::Touch touch;
  const Errc next = process.memory.next_touch(&touch);
  if (next == Errc::busy) return false;
  if (next != Errc::ok) stop("the program's faults cannot be heard of any more (was a descriptor of comex closed?)");
  faulter.shared = &histories_.of(touch.thread);
  const Served served = answer(touch, process.memory, *process.pager, faulter);
  trace_fault(touch.page, touch.write, served, faulter, touch.thread);
  (void)resolved(touch.page, served, faulter);
  wake_evictor();
  return true;
}

}  // namespace comex::runtime
