#include "run/runtime/faults.h"

#include <ucontext.h>

#include <cerrno>

#include "run/runtime/delivery.h"
#include "run/runtime/deputy.h"
#include "run/runtime/evictor.h"
#include "run/runtime/layout.h"
#include "run/runtime/process.h"
#include "run/runtime/signals.h"
#include "run/runtime/tracing.h"

namespace comex::runtime {

bool equip(Faulter& faulter) noexcept {
  if (faulter.bounce == nullptr) faulter.bounce = process.outpost->transfer_memory(Faulter::kBounceBytes);
  if (faulter.bounce == nullptr) faulter.bounce = process.own.take(Faulter::kBounceBytes);
  return faulter.bounce != nullptr;
}

bool resolved(PageNo page, Served served, const Faulter& faulter) noexcept {
  if (process.pager->full() && process.budget->beyond_hard()) stop_at_hard_limit();
  if (faulter.wrong > 0 && served != Served::lost) tell_of_wrong_page(faulter.wrong_at);
  switch (served) {
    case Served::not_ours: return false;
    case Served::lost:
      if (faulter.wrong > 0) stop_for_wrong_page(faulter.wrong_at);
      stop_for_loss(process.outpost->place_of(process.pager->table().load(page).location()).node);
    case Served::failed: stop("the kernel refused to give a page back to the program");
    default: return true;
  }
}

bool make_resident(PageNo page, bool write, std::uint32_t offset) noexcept {
  ThreadState* const state = this_thread();
  if (state == nullptr) stop("a thread that the runtime does not know touched memory that is away");
  const Inside inside(process.crossing, state->inside);
  state->faulter.offset = offset;
  const Served served = with_descriptors(*state, [&] { return process.pager->fault(page, write, state->faulter); });
  trace_fault(page, write, served, state->faulter, state->owner.load(std::memory_order_relaxed));
  wake_evictor();
  return resolved(page, served, state->faulter);
}

void settle(PageNo page, bool write) noexcept {
  for (;;) {
    if (process.pager->table().load(page).settled(write)) return;
    if (!make_resident(page, write)) return;
  }
}

void settle(PageRun pages, bool write) noexcept {
  for (PageNo page = pages.first; page < pages.end(); page = page + 1) settle(page, write);
}

namespace {

// Memory that is just being replaced by a call of another thread is nobody's for a moment. So a fault that is not ours
// is to come again, when that call is over. It is the program's if there was no other such call since the last time.
bool is_to_come_again(ThreadState& state, const void* address) noexcept {
  const Stray now{address, layout.losses()};
  const bool is_new = now != state.stray;
  state.stray = is_new ? now : Stray{};
  return is_new;
}

}  // namespace

void on_fault(int signal, siginfo_t* info, void* context) {
  constexpr greg_t kWrite = 2;  // of the processor's error code
  const int error = errno;
  ThreadState* const state = this_thread();
  const std::uint8_t before = state != nullptr ? state->selector : 0;
  if (state != nullptr) state->selector = 0;
  auto& frame = *static_cast<ucontext_t*>(context);
  const bool of_program = state != nullptr && !is_in_our_code(before, frame);
  if (of_program) {
    use_stack_from(*state, frame);
    state->open_signals.store(~(mask_of(frame) | state->blocked), std::memory_order_relaxed);
  }
  // A signal that somebody sent has no address.
  const bool fault = info->si_code > 0;
  const bool write = (frame.uc_mcontext.gregs[REG_ERR] & kWrite) != 0;
  const auto offset = static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(info->si_addr) % kPageSize);
  bool resolved = fault && make_resident(PageNo::of(info->si_addr), write, offset);
  if (!resolved && fault && of_program) resolved = is_to_come_again(*state, info->si_addr);
  if (of_program) state->open_signals.store(0, std::memory_order_relaxed);
  if (resolved && of_program && !state->waiting) deliver_aside(*state, frame);
  if (state != nullptr) state->selector = before;
  // In our own code nobody can answer it.
  if (!resolved && fault && before == 0) Signals::reset(signal);
  if (!resolved && (!fault || before != 0)) on_signal(signal, info, context);
  errno = error;
}

}  // namespace comex::runtime
