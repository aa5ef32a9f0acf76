#include "run/runtime/deputy.h"

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <mutex>
#include <new>
#include <utility>

#include "base/futex.h"
#include "run/descriptor_limit.h"
#include "run/own_descriptors.h"
#include "run/runtime/process.h"

namespace comex::runtime {
namespace {

constexpr Millis kLook{100};

}  // namespace

constinit Deputy deputy;

bool Deputy::start() noexcept {
  const Inside inside(process.crossing, this_thread()->inside);  // a child must not find the mutexes held
  const std::lock_guard lock(starting_);
  if (thread_.load(std::memory_order_acquire) != 0) return true;
  if (this_thread()->guest) return false;
  const std::lock_guard received(own_descriptors.mutex);
  const RaisedDescriptorLimit more_descriptors;
  int ends[2];
  if (!out_) {
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return false;
    out_ = own_descriptors.adopt(Fd(ends[0]));
    in_ = own_descriptors.adopt(Fd(ends[1]));
  }
  if (process.own_threads.start(&serve_for_ever, this) != Errc::ok) return false;
  while (thread_.load(std::memory_order_acquire) == 0) futex_wait(thread_, 0, kLook);
  return true;
}

void Deputy::serve_for_ever(void* argument) {
  Deputy& self = *static_cast<Deputy*>(argument);
  const long number = syscall(SYS_set_tid_address, &self.thread_);
  self.thread_.store(static_cast<std::uint32_t>(number), std::memory_order_release);
  futex_wake_all(self.thread_);
  for (;;) {
    for (std::uint32_t turn = 0; (turn = self.turn_.load(std::memory_order_acquire)) != asked;) {
      futex_wait(self.turn_, turn, std::chrono::seconds(10));
    }
    ThreadState* const state = self.state_;
    set_this_thread(state);
    state->apart = false;  // here it is not
    self.function_(self.argument_);
    state->apart = true;
    set_this_thread(nullptr);
    self.turn_.store(done, std::memory_order_release);
    futex_wake_all(self.turn_);
  }
}

void Deputy::request(ThreadState& state, Function function, void* argument) noexcept {
  const Kept kept(state);
  state_ = &state;
  function_ = function;
  argument_ = argument;
  turn_.store(asked, std::memory_order_release);
  futex_wake_all(turn_);
  while (turn_.load(std::memory_order_acquire) != done) {
    if (thread_.load(std::memory_order_acquire) == 0) stop("the process whose memory a task shares has ended");
    futex_wait(turn_, asked, kLook);
  }
  turn_.store(idle, std::memory_order_relaxed);
}

void Deputy::after_fork() noexcept {
  own_descriptors.drop(out_.get());
  own_descriptors.drop(in_.get());
  this->~Deputy();
  new (this) Deputy;
}

}  // namespace comex::runtime
