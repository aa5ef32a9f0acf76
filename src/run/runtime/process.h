// Everything the runtime is in one process, and the way in for signal handlers, which get no argument.
//
//   0x0000...                                                                                      0x7fff...
//   | program, its libraries | brk heap | ...  mmap: arenas, big arrays ... | libc, our library |  stacks  |
//                              `----------------- adopted ---------------'
//   ours, never adopted: the library, page table, staging, bounce buffers, threads' states and stacks, slab windows
//
// Thread safety: set up by one thread; then see each part.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/fd.h"
#include "pager/pager.h"
#include "run/outpost/outpost.h"
#include "run/room.h"
#include "run/runtime/crossing.h"
#include "run/runtime/messages.h"
#include "run/runtime/own_thread.h"
#include "run/runtime/thread_state.h"
#include "run/score.h"
#include "run/uffd_memory.h"

namespace comex::runtime {

struct Process {
  OwnMemory own;
  UffdMemory memory{own};
  Share* budget = nullptr;
  Room* room = nullptr;
  Room::Owned* owned = nullptr;  // our account in it
  char keeper[108] = {};         // the name of its socket
  TraceRing* rings = nullptr;    // one for each account; nullptr: there is no trace
  TraceRing* trace = nullptr;    // ours of them, once the process is awake
  const Score* score = nullptr;  // what an earlier run did; nullptr: nothing is to be played
  Outpost* outpost = nullptr;
  Pager* pager = nullptr;
  Threads* threads = nullptr;
  OwnThreads own_threads;
  Crossing crossing;
  Messages messages;
  std::atomic<bool> filtered{false};  // a thread of the program's may have a filter of system calls (seccomp)

  // Wakes the evictor if it sleeps and has something to do.
  std::atomic<std::uint32_t> evictor_turn{0};
  std::atomic<bool> evictor_asleep{false};
};

// The one of this process; all zeros before it is set up.
extern Process process;

// This thread's state, or nullptr if it has none: a thread of the runtime's own, or of before.
ThreadState* this_thread() noexcept;
void set_this_thread(ThreadState* state) noexcept;

// Says one line on stderr, if that is what it was when the program began: that nothing of this process is paged out.
void tell_left_alone() noexcept;
// Says one line on stderr, if that is what it was when the program began, and ends the process. Never returns.
[[noreturn]] void stop(const char* why) noexcept;
[[noreturn]] void stop_for_loss(NodeId node) noexcept;           // it had the only copy of a page
[[noreturn]] void stop_for_wrong_page(Location where) noexcept;  // what is there is not what was sent there
[[noreturn]] void stop_without_keeper() noexcept;
[[noreturn]] void stop_at_hard_limit() noexcept;
// Says where a page came from that was not what was sent there; the first few of a program.
void tell_of_wrong_page(Location where) noexcept;

// The account that this process counts in, from now on: at its beginning, and in the child of a fork.
void begin_record(Room::Owned* owned) noexcept;
// What that account says of its process: kept here, for the program's own memory may be away.
const char* name_of_program() noexcept;

}  // namespace comex::runtime
