#include "run/runtime/process.h"

#include <sys/syscall.h>

#include <cstring>

#include "run/runtime/gate_entry.h"

namespace comex::runtime {
namespace {

[[gnu::tls_model("initial-exec")]] thread_local ThreadState* current = nullptr;

void say(const char* text) noexcept {
  comex_gate_call(SYS_write, 2, reinterpret_cast<std::uint64_t>(text), std::strlen(text), 0, 0, 0);
}

}  // namespace

constinit Process process;

ThreadState* this_thread() noexcept {
  ThreadState* const standing =
      process.threads != nullptr ? process.threads->standing_on(__builtin_frame_address(0)) : nullptr;
  return standing != nullptr ? standing : current;
}

void set_this_thread(ThreadState* state) noexcept {
  current = state;
}

void stop(const char* why) noexcept {
  constexpr std::uint64_t kExitStopped = 125;
  say("comex: ");
  say(why);
  say("; the program is stopped\n");
  for (;;) comex_gate_call(SYS_exit_group, kExitStopped, 0, 0, 0, 0, 0);
}

}  // namespace comex::runtime
