// The part of the keeper that watches how much memory the program's processes use, and wakes them when that comes near
// the budget.
//
// A process begins dormant: nothing of it is registered, no system call is watched, it has no connection. All it has is
// an account in the room (run/room.h). Here its memory is read from /proc every so often, often enough that the budget
// cannot be passed in between. When all processes together are near the budget, the largest dormant ones are woken: all
// their threads get a signal (run/keeper/poke.h), whose handler takes over (run/runtime/world.h).
//
// What a process uses and has not charged to its account (stacks, what is not adopted, the runtime's own) is taken off
// what the pagers may use.
//
// Threads: one, which does everything here. Thread safety: none needed by others.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <unordered_map>

#include "base/clock.h"
#include "base/expected.h"
#include "run/room.h"

namespace comex {

class Waker {
 public:
  // Told of a process that could not be woken this time, and why.
  using Failed = std::function<void(pid_t, const Error&)>;

  // REQUIRES: the room outlives this.
  Waker(Room& room, std::uint64_t budget_pages, Failed on_failure = nullptr);
  ~Waker();
  Waker(const Waker&) = delete;
  Waker& operator=(const Waker&) = delete;

 private:
  struct Use {
    std::uint64_t all = 0;           // pages of all processes
    std::uint64_t elsewhere = 0;     // of those, in no account
    bool dormant = false;            // there are processes that are
    Room::Owned* largest = nullptr;  // of those that are, and worth waking
    std::uint64_t largest_pages = 0;
    Room::Owned* asking = nullptr;  // of those that are dormant
  };

  // Of a process that could not be woken. It is tried again, the later the longer it has been so: others have their
  // turn meanwhile, and it is not stopped all the time.
  struct Trouble {
    std::uint32_t pid = 0;
    std::uint64_t desk = 0;  // of the program that it was
    Clock::time_point since{};
    Clock::time_point not_before{};
    Clock::time_point tried{};
    Clock::time_point over_since{};  // beyond the whole budget, and tried again and again
    bool told = false;
  };

  void run();
  Use look();
  [[nodiscard]] bool may_be_tried(Room::Owned& owned, std::uint32_t pid);
  void try_later(Room::Owned& owned, std::uint32_t pid, std::uint64_t desk, const Error& why);
  void wake(Room::Owned& owned);
  void stop_threads(Room::Owned& owned);
  // Until the budget could be used up, should everything be touched as fast as memory can be.
  [[nodiscard]] Nanos pause(const Use& use) const;

  Room& room_;
  const std::uint64_t budget_;
  const std::uint64_t near_;  // from how many pages on processes are woken
  const Failed on_failure_;
  std::atomic<bool> closing_{false};
  std::unordered_map<const Room::Owned*, Trouble> troubles_;
  std::thread thread_;
};

// Pages of private memory that a process has here; 0 if it has ended.
std::uint64_t private_pages(std::uint32_t pid);

}  // namespace comex
