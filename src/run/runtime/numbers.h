// The numbers by which the keeper knows this process and its threads. In a PID namespace of its own (unshare, clone,
// setns) a process sees other numbers of itself, and with those the keeper would watch a stranger.
//
// Thread safety: none for begin() and after_fork(), which run while there is one thread; any thread for the rest.
// Fault path: no.
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace comex::runtime {

class Numbers {
 public:
  // REQUIRES: /proc is that of the keeper: the room was found there.
  void begin() noexcept;
  // In the child of a fork, which may be in another namespace than its parent.
  void after_fork() noexcept;

  // 0: not known. That is so in another namespace where /proc is not, or no longer, that of the keeper.
  [[nodiscard]] std::uint32_t of_process() const noexcept;
  [[nodiscard]] std::uint32_t of_this_thread() const noexcept;
  // Whether processes have the same numbers here as for the keeper.
  [[nodiscard]] bool are_the_keepers() const noexcept { return same_; }

 private:
  dev_t proc_ = 0;  // each namespace has a /proc of its own
  bool same_ = true;
};

inline constinit Numbers numbers;

}  // namespace comex::runtime
