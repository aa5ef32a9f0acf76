#include "run/launch/launch.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <new>

#include "base/clock.h"
#include "base/units.h"
#include "node/arena.h"
#include "run/chunk_map.h"
#include "run/keeper/keeper_listen.h"
#include "run/launch/orphan.h"
#include "run/room.h"

namespace comex {
namespace {

// The limit of files' sizes is the program's. Ours are in memory, and large, though little of them is used: while this
// lives, and in what is begun meanwhile, the limit is as high as it may be.
class LongFiles {
 public:
  LongFiles() {
    if (getrlimit(RLIMIT_FSIZE, &before_) != 0 || before_.rlim_cur == RLIM_INFINITY) return;
    const rlimit none{RLIM_INFINITY, RLIM_INFINITY};
    const rlimit most{before_.rlim_max, before_.rlim_max};
    raised_ = setrlimit(RLIMIT_FSIZE, &none) == 0 || setrlimit(RLIMIT_FSIZE, &most) == 0;
  }
  ~LongFiles() {
    if (raised_) setrlimit(RLIMIT_FSIZE, &before_);
  }
  LongFiles(const LongFiles&) = delete;
  LongFiles& operator=(const LongFiles&) = delete;

  // To be asked before: the kernel's answer would be a signal.
  static Expected<void> check(std::size_t bytes) {
    rlimit most{};
    if (getrlimit(RLIMIT_FSIZE, &most) != 0 || most.rlim_cur >= bytes) return {};
    return Error{Errc::invalid,
                 fmt::format("files of {} are needed, of which little is used; raise ulimit -f", format_size(bytes))};
  }

 private:
  rlimit before_{};
  bool raised_ = false;
};

Expected<Room*> make_room(const Launch& launch, Fd* file) {
  const bool traced = launch.trace || !launch.keeper.profile.empty();
  const std::size_t bytes = Room::bytes(traced);
  if (auto enough = LongFiles::check(std::max(bytes, ChunkMap::kBytes)); !enough) return std::move(enough).error();
  Fd fd(memfd_create(Room::kFile, MFD_CLOEXEC));
  if (!fd || ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) return system_error("cannot make memory to share");
  void* const memory = mmap(nullptr, sizeof(Room), PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (memory == MAP_FAILED) return system_error("cannot map memory to share");
  auto* const room = new (memory) Room(Room::InZeros{});
  room->delivery = launch.delivery;
  room->prefetch = launch.prefetch;
  room->evict = launch.evict;
  room->progress.program.store(static_cast<std::uint32_t>(getpid()), std::memory_order_relaxed);  // which will exec it
  room->sealing = launch.sealing;
  CipherKey& key = room->key;
  if (launch.sealing == Sealing::cipher &&
      getrandom(key.bytes.data(), key.kBytes, 0) != static_cast<ssize_t>(key.kBytes)) {
    return system_error("cannot make a key");
  }
  room->tuning = launch.tuning;
  room->old_kernel.store(launch.old_kernel, std::memory_order_relaxed);
  room->set_budget(launch.keeper.local >> kPageShift, 0);
  room->budget.hard.store(launch.hard >> kPageShift, std::memory_order_relaxed);
  const auto now = static_cast<std::uint64_t>(Nanos(Clock::now().time_since_epoch()).count());
  room->trace_start.store(traced ? now : 0, std::memory_order_relaxed);
  *file = std::move(fd);
  return room;
}

// A file in memory: there may be a secret in it.
Expected<Fd> write_down(const KeeperOptions& options) {
  const std::string bytes = to_bytes(options);
  Fd file(memfd_create("comex-options", MFD_CLOEXEC));
  if (!file || pwrite(file.get(), bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    return system_error("cannot make memory to share");
  }
  return file;
}

KeeperReport wait_for_report(const Fd& from) {
  std::string bytes;
  std::array<char, 4096> buffer{};
  for (;;) {
    const ssize_t got = read(from.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return keeper_report_from(bytes);
    bytes.append(buffer.data(), static_cast<std::size_t>(got));
  }
}

}  // namespace

Expected<std::string> start_keeper(const Launch& launch, const std::string& executable) {
  const LongFiles long_files;
  const bool own_node = launch.keeper.pool.nodes.empty();
  if (own_node) {
    if (auto enough = Arena::check_files(launch.keeper.own_memory); !enough) return std::move(enough).error();
  }
  const auto name = abstract_name("run");
  if (!name) return name.error();
  const auto listener = listen_keeper(*name);
  if (!listener) return listener.error();
  Fd file;
  const auto room = make_room(launch, &file);
  if (!room) return room.error();
  const auto options = write_down(launch.keeper);
  if (!options) return options.error();
  const Fd self(static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0)));
  if (!self) return system_error("cannot watch this process");
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return system_error("cannot make a pipe");
  const Fd from(ends[0]);
  Fd to(ends[1]);

  prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);  // where Yama asks for it: the keeper will be nobody's ancestor
  const std::array<int, kKeeperFiles> files{listener->get(), file.get(),         self.get(),         to.get(),
                                            options->get(),  launch.stats.get(), launch.trace.get(), launch.done.get()};
  const auto orphan = start_orphan(executable, kFirstKeeperFile, files);
  if (!orphan) return orphan.error();
  to.reset();
  (*room)->keeper.store(static_cast<std::uint32_t>(orphan->pid), std::memory_order_relaxed);
  (*room)->at_once.store(launch.at_once || !orphan->can_trace, std::memory_order_relaxed);
  if (!own_node && !launch.keeper.later) {
    const KeeperReport report = wait_for_report(from);
    if (report.code != Errc::ok) return Error{report.code, report.text};
  }
  return fmt::format("{}{} /proc/{}/fd/{}", Room::kPrefix, *name, orphan->pid, number_of(KeeperFile::room));
}

}  // namespace comex
