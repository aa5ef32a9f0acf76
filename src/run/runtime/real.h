// libc's own function of a name that this library takes over: found when the library is loaded, or when it is needed
// even earlier.
//
// Thread safety: any thread. Fault path: not the first use.
#pragma once

#include <dlfcn.h>

#include <atomic>

namespace comex::runtime {

template <typename Function>
class Real {
 public:
  explicit constexpr Real(const char* name) noexcept : name_(name) {}

  Function* find() noexcept {
    Function* found = function_.load(std::memory_order_relaxed);
    if (found != nullptr) [[likely]]
      return found;
    found = reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name_));
    function_.store(found, std::memory_order_relaxed);
    return found;
  }
  template <typename... Arguments>
  auto operator()(Arguments... arguments) noexcept {
    return find()(arguments...);
  }

 private:
  const char* name_;
  std::atomic<Function*> function_{nullptr};
};

}  // namespace comex::runtime

// In front of a function of libc's.
#define COMEX_TAKEN_OVER extern "C" [[gnu::visibility("default")]]
