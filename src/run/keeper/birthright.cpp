#include "run/keeper/birthright.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>

namespace comex {

Birthright Birthright::take() {
  const auto given = [](KeeperFile file) { return Fd(fcntl(number_of(file), F_GETFD) >= 0 ? number_of(file) : -1); };
  Birthright files;
  files.stats = given(KeeperFile::stats);
  files.trace = given(KeeperFile::trace);
  files.done = given(KeeperFile::done);
  return files;
}

Expected<KeeperOptions> Birthright::read_options() const {
  std::string bytes(static_cast<std::size_t>(std::max<off_t>(lseek(options.get(), 0, SEEK_END), 0)), 0);
  if (pread(options.get(), bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    return system_error("cannot read");
  }
  return keeper_options_from(bytes);
}

Expected<Room*> Birthright::map_room(bool traced) const {
  void* const memory = mmap(nullptr, Room::bytes(traced), PROT_READ | PROT_WRITE, MAP_SHARED, room.get(), 0);
  if (memory == MAP_FAILED) return system_error("cannot map memory to share");
  madvise(memory, sizeof(Room), MADV_DONTDUMP);  // there may be a key in it
  return static_cast<Room*>(memory);
}

bool Birthright::wait_for_need(Census& census) const {
  for (bool running = true;;) {
    std::array<pollfd, 2> waits{{{running ? program.get() : -1, POLLIN, 0}, {listener.get(), POLLIN, 0}}};
    poll(waits.data(), waits.size(), static_cast<int>(kCensusEvery.count()));
    if (waits[1].revents != 0) return true;
    if (waits[0].revents != 0) running = false;
    census.look();
    if (!running && census.living() == 0) return false;
  }
}

}  // namespace comex
