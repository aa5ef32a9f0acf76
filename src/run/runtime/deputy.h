// A thread of the process that does what must be done with its descriptors, for tasks that have others: they share the
// memory, but not the table (`clone` without CLONE_FILES, `unshare`). What was opened since is not theirs, and what
// they open nobody else's. See "Tasks with descriptors of their own" in docs/design-notes.md.
//
// Thread safety: any thread; one request at a time. Fault path: yes.
#pragma once

#include <atomic>
#include <cstdint>
#include <type_traits>

#include "base/fd.h"
#include "base/mutex.h"
#include "run/runtime/thread_state.h"

namespace comex::runtime {

class Deputy {
 public:
  // True if there is one when this returns: not if a guest asks for the first, whose thread it would be. REQUIRES: the
  // caller has the descriptors of the process, or there is one.
  bool start() noexcept;

  // Calls f(), as this task and with the descriptors of the process. REQUIRES: state is the caller's, and apart; f()
  // does not wait for the crossing, as others may be inside and wait for their turn here.
  template <typename F>
  auto act(ThreadState& state, F&& f) noexcept {
    using Result = decltype(f());
    if constexpr (std::is_void_v<Result>) {
      request(
          state, [](void* argument) { (*static_cast<std::remove_reference_t<F>*>(argument))(); }, &f);
    } else {
      Result result{};
      act(state, [&]() -> void { result = f(); });
      return result;
    }
  }

  // For as long as it lives, a task that is apart has the deputy to itself, between its requests, too: for one that
  // leaves behind what others' requests would wait for. REQUIRES: there is a deputy if the task is apart.
  class Kept {
   public:
    explicit Kept(ThreadState& state) noexcept;
    ~Kept();
    Kept(const Kept&) = delete;
    Kept& operator=(const Kept&) = delete;

   private:
    ThreadState& state_;
    const bool keeps_;
  };

  // By which descriptors go to a task that is apart, and where they come out.
  [[nodiscard]] int out() const noexcept { return out_.get(); }
  [[nodiscard]] int in() const noexcept { return in_.get(); }

  // In the child of a fork, where there is none.
  void after_fork() noexcept;

 private:
  using Function = void (*)(void* argument);
  enum Turn : std::uint32_t { idle, asked, done };

  void request(ThreadState& state, Function function, void* argument) noexcept;
  [[noreturn]] static void serve_for_ever(void* deputy);

  Mutex mutex_;     // held by who asks, or has it kept
  Mutex starting_;  // of two that begin, one does
  std::atomic<std::uint32_t> turn_{idle};
  std::atomic<std::uint32_t> thread_{0};  // its number; the kernel makes it 0 when it ends, or executes a program
  ThreadState* state_ = nullptr;
  Function function_ = nullptr;
  void* argument_ = nullptr;
  Fd out_;
  Fd in_;
};

extern Deputy deputy;

inline Deputy::Kept::Kept(ThreadState& state) noexcept : state_(state), keeps_(state.apart && !state.keeps_deputy) {
  if (!keeps_) return;
  deputy.mutex_.lock();
  state_.keeps_deputy = true;
}

inline Deputy::Kept::~Kept() {
  if (!keeps_) return;
  state_.keeps_deputy = false;
  deputy.mutex_.unlock();
}

// What a task does itself if it has the descriptors of the process.
template <typename F>
auto with_descriptors(ThreadState& state, F&& f) noexcept {
  return state.apart ? deputy.act(state, f) : f();
}

}  // namespace comex::runtime
