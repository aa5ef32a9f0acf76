// How the runtime begins in a program: dormant, before main, when the loader calls our constructor; and how it wakes.
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>

#include "base/futex.h"
#include "base/own_place.h"
#include "pager/evict/choice.h"
#include "pager/seal/checksum.h"
#include "pager/seal/cipher.h"
#include "run/descriptor_limit.h"
#include "run/outpost/outpost.h"
#include "run/own_descriptors.h"
#include "run/poke_desk.h"
#include "run/room.h"
#include "run/runtime/delivery.h"
#include "run/runtime/exec.h"
#include "run/runtime/faults.h"
#include "run/runtime/gate.h"
#include "run/runtime/layout.h"
#include "run/runtime/move.h"
#include "run/runtime/numbers.h"
#include "run/runtime/process.h"
#include "run/runtime/profile.h"
#include "run/runtime/signals.h"
#include "run/runtime/tracing.h"
#include "run/runtime/world.h"

// Nothing of ours may come from the program's heap. What is made here is made once, and lives as long as the program.
void* operator new(std::size_t bytes) {
  return comex::runtime::process.own.take(bytes);
}
void* operator new[](std::size_t bytes) {
  return comex::runtime::process.own.take(bytes);
}
void operator delete(void*) noexcept {}
void operator delete(void*, std::size_t) noexcept {}
void operator delete[](void*) noexcept {}
void operator delete[](void*, std::size_t) noexcept {}

namespace comex::runtime {
namespace {

constexpr std::uint64_t kMostBlocks = 16 << 20;  // with a local page: 64 GiB, should each have one

// What waits to be written is local memory, too: a small budget has less of it.
StagingConfig staging_for(std::uint64_t pages) {
  constexpr std::uint64_t kShare = 16;
  constexpr std::uint32_t kLeast = 4;
  StagingConfig config;
  const auto share = static_cast<std::uint32_t>(pages / kShare / kBatchPages);
  config.batches = std::clamp(share, kLeast, config.batches);
  return config;
}

// For all that is on its way, and for some threads: what others bring is copied once more.
void open_dock(const Pager::Sizes& sizes, const StagingConfig& staging) {
  constexpr std::uint64_t kMostThreads = 16;
  constexpr std::uint64_t kShare = 64;
  const std::uint64_t threads = (process.budget->whole() << kPageShift) / kShare / Faulter::kBounceBytes;
  const std::size_t wanted = Pager::transfer_bytes(*process.budget, sizes, staging, process.outpost->code()) +
                             std::min(threads, kMostThreads) * Faulter::kBounceBytes;
  const std::size_t bytes = std::min(wanted, Dock::kMostBytes);
  if (!process.room->may_dock(bytes >> kPageShift)) return;
  process.outpost->open_dock(bytes);
  process.owned->docked.store(process.outpost->dock().shared_pages(), std::memory_order_relaxed);
}

std::byte* own(void*, std::size_t bytes) {
  return process.own.take(bytes);
}

bool is_apart() {
  const ThreadState* const state = this_thread();
  return state != nullptr && state->apart;
}

// Takes the variable apart, and what only this program was to be told out of it (see exec.h); false if it is not of
// this version.
bool read_variable(char* text, char* name, char* room, std::size_t size) {
  if (std::strncmp(text, Room::kPrefix, std::strlen(Room::kPrefix)) != 0) return false;
  text += std::strlen(Room::kPrefix);
  for (char* part : {name, room}) {
    const std::size_t length = std::strcspn(text, " ");
    if (length == 0 || length >= size) return false;
    std::memcpy(part, text, length);
    part[length] = 0;
    text += length;
    if (*text == ' ') ++text;
  }
  if (*text == 0) return true;
  char* rest = nullptr;
  char* end = nullptr;
  const std::uint64_t ignored = std::strtoull(text, &rest, 10);
  const std::int64_t who = std::strtoll(rest, &end, 10);
  const bool whole = rest != text && end != rest && *end == 0;
  if (whole && (who == getpid() || -who == getppid())) Signals::ignore(ignored);
  text[-1] = 0;
  return whole;
}

// "/proc/PID/fd/N": a number that is another process's by now, if the keeper is gone, or if /proc is that of another
// namespace. Its file is not to be opened, let alone written to.
bool leads_to_room(const char* path) {
  char target[64];
  const ssize_t length = readlink(path, target, sizeof target - 1);
  if (length <= 0) return false;
  target[length] = 0;
  constexpr const char* kMemory = "/memfd:";
  const std::size_t name = std::strlen(Room::kFile);
  if (std::strncmp(target, kMemory, std::strlen(kMemory)) != 0) return false;
  const char* const found = target + std::strlen(kMemory);
  // What follows is a word of the kernel's: that it has no name in any folder.
  return std::strncmp(found, Room::kFile, name) == 0 && (found[name] == 0 || found[name] == ' ');
}

// nullptr if it is not that of the keeper that the path names.
Room* map_room(const char* path, int fd) {
  struct stat found {};
  if (fstat(fd, &found) != 0 || !S_ISREG(found.st_mode) || found.st_size < static_cast<off_t>(sizeof(Room))) {
    return nullptr;
  }
  void* const memory = mmap(OwnPlace::take(sizeof(Room)), sizeof(Room), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) return nullptr;
  Room* const room = static_cast<Room*>(memory);
  const char* const number = path + std::strcspn(path, "0123456789");
  if (room->keeper.load(std::memory_order_relaxed) == std::strtoul(number, nullptr, 10)) return room;
  munmap(memory, sizeof(Room));  // the room of another run
  return nullptr;
}

Room* enter_room(const char* path) {
  const int fd = leads_to_room(path) ? ::open(path, O_RDWR | O_CLOEXEC) : -1;
  if (fd < 0) return nullptr;
  Room* const room = map_room(path, fd);
  if (room != nullptr) madvise(room, sizeof(Room), MADV_DONTDUMP);
  // Now, for the process may have no right to the file when it wakes. What is not used takes no memory.
  if (room != nullptr && room->trace_start.load(std::memory_order_relaxed) != 0) process.rings = map_rings(fd);
  if (room != nullptr && room->prefetch == Prefetch::record) process.score = map_score(fd);
  ::close(fd);
  return room;
}

constinit const Checksum checksum;

const Sealer& make_sealer(Room& room) {
  switch (room.sealing) {
    case Sealing::none: break;
    case Sealing::checksum: return checksum;
    case Sealing::cipher: {
      std::byte* const memory = process.own.take(sizeof(Cipher));
      if (memory == nullptr) stop("no memory for the runtime");
      madvise(memory, sizeof(Cipher), MADV_DONTDUMP);
      return *new (memory) Cipher(room.key);
    }
  }
  return kNoSeal;
}

// What the signal by which the keeper wakes us comes to while the process is dormant.
void on_poke(int, siginfo_t* info, void* context) {
  auto& frame = *static_cast<ucontext_t*>(context);
  if (!world.come(*info, frame)) return signals.arrive_dormant(*info);
  ThreadState* const state = this_thread();
  if (state != nullptr) take_over(*state, frame);
}

// False if there are too many processes: this one is not watched, then.
bool open_account(std::uint32_t number) {
  process.owned = process.room->open_account(number);
  if (process.owned == nullptr) return false;
  begin_record(process.owned);
  // There is one more to be watched from now on.
  process.room->request.fetch_add(1, std::memory_order_release);
  futex_wake_all_shared(process.room->request);
  return true;
}

constinit const PokeDesk* desk = nullptr;

// From now on the keeper can wake the process.
void show_desk() {
  process.owned->desk.store(reinterpret_cast<std::uint64_t>(desk), std::memory_order_release);
}

// After a fork of a process that is dormant.
void begin_dormant_child() {
  if (process.pager != nullptr || process.room == nullptr) return;
  numbers.after_fork();
  const std::uint32_t number = numbers.of_process();
  if (number != 0 && open_account(number)) return show_desk();
  process.room = nullptr;  // nobody can watch it, so it does without
}

constinit Fd first_socket;

// Names of sockets are those of a network namespace: in another, that of a keeper which is there is not known.
bool keeper_is_near() {
  if (connect_keeper(process.keeper, &first_socket) == Errc::ok) return true;
  return errno != ECONNREFUSED ||
         kill(static_cast<pid_t>(process.room->keeper.load(std::memory_order_relaxed)), 0) != 0;
}

// All that a process does that never comes near its budget.
void begin(char* variable) {
  char path[108];
  if (!read_variable(variable, process.keeper, path, sizeof path)) stop("COMEX_RUN is not of this version of comex");
  OwnPlace::begin();
  // Of another user by now (a daemon that gave up its rights), or the keeper is gone: it can do without.
  process.room = enter_room(path);
  if (process.room == nullptr) return;
  if (process.rings != nullptr) know_program();
  remember_environment(variable);
  numbers.begin();
  if (!open_account(numbers.of_process())) {
    process.room = nullptr;
    return;
  }
  const auto do_without = [] { process.owned->life.store(Room::Life::left_alone, std::memory_order_release); };
  // There is a limit of addresses (ulimit -v). The threads now, for the loader has locks that must not be waited for in
  // a signal handler.
  const bool has_room = process.own.reserve() == Errc::ok && process.own_threads.prepare([](std::size_t bytes) {
    return process.own.take(bytes);
  }) == Errc::ok;
  if (!has_room) return do_without();
  if (process.room->at_once.load(std::memory_order_relaxed)) {
    return keeper_is_near() ? world.wake_alone() : do_without();
  }
  prctl(PR_SET_PTRACER, process.room->keeper.load(std::memory_order_relaxed));  // where Yama asks for it
  desk = &signals.expect(&on_poke);
  show_desk();
  pthread_atfork(nullptr, nullptr, &begin_dormant_child);
}

[[gnu::constructor]] void on_load() {
  char* const variable = std::getenv(Room::kVariable);
  if (variable != nullptr) begin(variable);
}

}  // namespace

void prepare_process(const Standing* threads) noexcept {
  // Nobody else of the program runs.
  const RaisedDescriptorLimit more_descriptors;
  if (open_memory(fit_delivery(process.room->delivery)) != Errc::ok) stop("no right to userfaultfd");
  const Held held = held_since_dormant();
  if (held == Held::seen) process.memory.expect_pins();
  Fd socket = std::move(first_socket);
  if (!socket && connect_keeper(process.keeper, &socket) != Errc::ok) {
    stop("the keeper of this program does not answer");
  }
  OutpostConfig config;
  const Tuning& tuning = process.room->tuning;
  if (tuning.stock > 0) config.first_stock = config.most_stock = tuning.stock;
  config.own = &own;
  config.apart = &is_apart;
  config.record = &process.owned->record;
  if (Outpost::create(own_descriptors.adopt(std::move(socket)), config, &process.outpost) != Errc::ok) {
    stop("the keeper of this program does not answer");
  }
  process.budget = new Share(process.room->budget, process.owned->account);
  process.threads = new Threads(process.own.take(Threads::bytes()), process.own.take(Threads::stack_bytes()));
  const Pager::Sizes sizes{tuning.prefetch > 0 ? tuning.prefetch - 1 : 0, tuning.buffer};
  const StagingConfig staging = staging_for(process.budget->whole());
  if (process.outpost->relayed()) open_dock(sizes, staging);
  auto pager = Pager::create(
      {.memory = process.memory,
       .frames = *process.outpost,
       .budget = *process.budget,
       .victims = *make_victims(process.room->evict, process.memory, kMostBlocks, *process.budget).release(),
       .prefetcher = choose_prefetcher(),
       .pins = *process.threads,
       .sizes = sizes,
       .sealer = make_sealer(*process.room)},
      staging);
  if (!pager) stop("no memory for the runtime");
  process.pager = pager->release();
  process.pager->count_in(process.owned->record.tallies[0].pager);
  begin_trace();
  begin_playing();
  signals.begin(&on_fault, &on_call);
  // Before anything is adopted: from then on a touch may have to be served.
  if (!process.messages.start(process.memory)) stop("cannot start a thread");
  if (held == Held::blind) {
    layout.begin_with_nothing();
    tell_left_alone();
  } else {
    layout.begin(threads);
  }
}

}  // namespace comex::runtime
