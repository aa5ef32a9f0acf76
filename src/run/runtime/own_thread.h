// Threads of the runtime's own inside the program's process, of which libc knows nothing.
//
// pthread_create is not for us: it allocates from the program's heap, may not be called from a signal handler, and
// tells libc that there are several threads now, after which everything that locks is slower. So the thread is cloned
// bare, with thread-local storage made from the initial images of all modules: errno works, thread_local of ours works
// (initial-exec), and so do libc's wrappers of system calls. malloc, stdio and pthread mutexes are not for such
// threads.
//
// Every signal is blocked in them: what is sent to the process goes to its own threads.
// Fault path: start() may be called from a signal handler; prepare() may not.
#pragma once

#include <atomic>
#include <cstddef>

#include "base/expected.h"

namespace comex::runtime {

class OwnThreads {
 public:
  using Allocate = std::byte* (*)(std::size_t bytes);
  using Body = void (*)(void* argument);

  // Looks at the modules that are loaded. To be called before the program's code runs.
  Errc prepare(Allocate allocate) noexcept;
  // Of thread-local storage that every thread has, below its thread pointer, and of libc's block above it.
  [[nodiscard]] std::size_t storage_below() const noexcept { return image_bytes_; }
  static constexpr std::size_t storage_above() { return kControlBlock; }
  // `body` must not return. What a thread that could not be started was to have is for the next.
  Errc start(Body body, void* argument) noexcept;

 private:
  static constexpr std::size_t kStackBytes = 256 << 10;
  static constexpr std::size_t kControlBlock = 4096;  // more than libc's struct pthread

  Allocate allocate_ = nullptr;
  std::atomic<std::byte*> spare_{nullptr};
  std::byte* images_ = nullptr;  // initial thread-local storage, up to where the thread pointer goes
  std::size_t image_bytes_ = 0;
};

}  // namespace comex::runtime
