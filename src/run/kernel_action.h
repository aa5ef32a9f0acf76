// What is done about a signal, as rt_sigaction(2) has it, which is not how libc has it.
#pragma once

#include <cstdint>

namespace comex {

struct KernelAction {
  void* handler = nullptr;
  std::uint64_t flags = 0;
  void* restorer = nullptr;
  std::uint64_t mask = 0;
};

}  // namespace comex
