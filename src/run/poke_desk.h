// What a dormant process keeps ready for being woken: how one of its threads can be made to handle SIGSYS, whatever the
// program has done about that signal. It lies in the memory of the process; its address is in the process's account.
//
// Programs change signal actions by system calls of their own, which nobody watches while they are dormant: the runtime
// of Go takes all signals. So the handler is put in place when it is needed, by run/keeper/poke.h.
#pragma once

#include <array>
#include <cstdint>

#include "run/kernel_action.h"

namespace comex {

struct PokeDesk {
  using Mark = std::array<std::uint64_t, 2>;
  // After exec the account is still the old program's: what is at the address then does not begin so.
  static constexpr Mark kMark{0x9D1C'43B6'70E5'A82F, 0x25F8'0B9E'C36A'71D4};

  Mark mark{};
  std::uint64_t call = 0;  // the address of a system-call instruction
  KernelAction ours;
  KernelAction found;  // what was there before; ours, if it was

  void open(std::uint64_t instruction, const KernelAction& action) {
    call = instruction;
    ours = found = action;
    mark = kMark;
  }
};

}  // namespace comex
