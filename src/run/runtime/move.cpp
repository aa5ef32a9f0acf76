#include "run/runtime/move.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string_view>

#include "base/fd.h"
#include "run/descriptor_limit.h"
#include "run/runtime/deputy.h"
#include "run/runtime/layout.h"
#include "run/runtime/maps.h"
#include "run/runtime/process.h"
#include "run/runtime/signals.h"
#include "run/runtime/world.h"
#include "run/uffd_memory.h"

namespace comex::runtime {
namespace {

// Nobody else may run: between one registration and the next, a page that is away would read as zeros.
bool stop_others() noexcept {
  std::uint32_t others = 0;
  const auto self = static_cast<std::uint32_t>(gettid());
  process.threads->for_each([&](std::uint32_t thread) { others += thread != self; });
  if (others > 0) return world.stop();
  process.crossing.close();
  return true;
}

struct Name {
  std::uint64_t inode;
  std::int64_t offset;
  std::uint16_t length;
  std::uint8_t kind;
  char text[1];
};

// Calls f(std::string_view) with what each open file is, or the beginning of it, until it returns true. Whether it did.
template <typename F>
bool any_open_file(F&& f) noexcept {
  const Fd names(::open("/proc/thread-self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  alignas(Name) char buffer[2048];
  for (;;) {
    const long got = names ? syscall(SYS_getdents64, names.get(), buffer, sizeof buffer) : 0;
    if (got <= 0) return false;
    for (long at = 0; at < got; at += reinterpret_cast<const Name*>(buffer + at)->length) {
      char target[32];
      const char* const name = buffer + at + offsetof(Name, text);
      const ssize_t length = readlinkat(names.get(), name, target, sizeof target);
      if (length > 0 && f(std::string_view(target, static_cast<std::size_t>(length)))) return true;
    }
  }
}

bool has_ring() noexcept {
  return any_open_file([](std::string_view file) { return file == "anon_inode:[io_uring]"; });
}

bool has_aio() noexcept {
  Maps maps;
  for (Maps::Mapping mapping; maps.next(mapping);) {
    if (mapping.aio) return true;
  }
  return false;
}

bool has_device() noexcept {
  constexpr std::string_view kHarmless[] = {"/dev/null",    "/dev/zero", "/dev/full", "/dev/random",
                                            "/dev/urandom", "/dev/tty",  "/dev/pts/", "/dev/ptmx",
                                            "/dev/console", "/dev/shm/", "/dev/hvc",  "/dev/kmsg"};
  return any_open_file([&](std::string_view file) {
    const auto begins = [&](std::string_view with) { return file.starts_with(with); };
    return begins("/dev/") && std::none_of(std::begin(kHarmless), std::end(kHarmless), begins);
  });
}

// One for all tries: what it takes of our memory is never given back.
constinit UffdMemory next(process.own);

// REQUIRES: nobody else runs.
bool move_alone() noexcept {
  // First, and before they may serve, while nothing has changed: who has its children begin in another PID namespace
  // gets no thread.
  process.messages.pause();
  const bool served = process.messages.start(next);
  if (served) layout.hand_over(next);
  process.messages.resume();
  return served;
}

bool move() noexcept {
  const RaisedDescriptorLimit more_descriptors;  // which others may see: to stop them before may be in vain
  if (next.open(Delivery::message, process.room->old_kernel) != Errc::ok) return false;
  bool moved = false;
  if (next.sees_pins() && stop_others()) {
    // Now nobody makes another.
    moved = !process.threads->any_beside() && move_alone();
    world.go();
  }
  if (!moved) next.close();
  return moved;
}

}  // namespace

Delivery fit_delivery(Delivery wanted) noexcept {
  return has_ring() || has_aio() ? Delivery::message : wanted;
}

Errc open_memory(Delivery wanted) noexcept {
  const Errc opened = process.memory.open(wanted, process.room->old_kernel);
  const bool may_do_without = opened == Errc::denied && wanted == Delivery::message;
  return may_do_without ? process.memory.open(Delivery::inline_signal, process.room->old_kernel) : opened;
}

Held held_since_dormant() noexcept {
  const bool lasting = has_ring() || has_aio();
  if (!lasting && !has_device()) return Held::nothing;
  const bool waits = !lasting || process.memory.delivery() == Delivery::message;
  return waits && process.memory.sees_pins() ? Held::seen : Held::blind;
}

void expect_pins() noexcept {
  if (process.memory.expects_pins()) return;
  if (!process.memory.sees_pins()) {
    if (layout.leave_everything_alone()) tell_left_alone();
    return;
  }
  signals.hold();
  process.memory.expect_pins();
  process.crossing.close();
  process.crossing.open();
  // What a driver is about to write to, we may not see.
  with_descriptors(*this_thread(), [] { process.pager->lift_fences(); });
  signals.let_go();
}

bool move_to_message() noexcept {
  // No fork meanwhile, and no second move.
  signals.hold();
  const bool there = process.memory.delivery() == Delivery::message ? process.memory.sees_pins() : move();
  signals.let_go();
  return there;
}

}  // namespace comex::runtime
