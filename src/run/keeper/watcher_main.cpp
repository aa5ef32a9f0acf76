// What stands in for the keeper (keeper_main.cpp) until it is needed, of a program of which nobody wants to hear, and
// whose pool, if it has one, was seen to be there: most such programs never come near their budget, and the keeper with
// all its libraries takes longer to begin than they do. It watches how much memory they use, wakes those that need
// more, and becomes the keeper.
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <exception>
#include <filesystem>

#include "base/units.h"
#include "run/keeper/birthright.h"
#include "run/keeper/progress_writer.h"
#include "run/keeper/waker.h"

namespace comex {
namespace {

bool watch(const KeeperOptions& options, const Birthright& files, Room& room) {
  const Waker waker(room, options.local >> kPageShift);
  const ProgressWriter progress(room.progress, options.program, options.copies(), options.code);
  Census census(room);
  return files.wait_for_need(census);
}

// With the same descriptors: none of them is closed by that.
int become_keeper() {
  std::string keeper = std::filesystem::read_symlink("/proc/self/exe").replace_filename("comex-keeper");
  std::array<char*, 2> arguments{keeper.data(), nullptr};
  execv(keeper.c_str(), arguments.data());
  fmt::print(stderr, "comex: the program cannot have more memory than is here: cannot run {}: {}\n", keeper,
             std::strerror(errno));
  return 1;
}

int run() {
  setpriority(PRIO_PROCESS, 0, kKeeperPriority);  // where that is allowed
  const Birthright files = Birthright::take();
  const auto options = files.read_options();
  if (!options) {
    fmt::print(stderr, "comex: comex-watcher is run by `comex run`: {}\n", options.error().message);
    return 2;
  }
  const auto room = files.map_room(false);
  if (!room) {
    fmt::print(stderr, "comex: {}\n", room.error().message);
    return 1;
  }
  return watch(*options, files, **room) ? become_keeper() : 0;
}

}  // namespace
}  // namespace comex

int main() {
  try {
    return comex::run();
  } catch (const std::exception& error) {
    fmt::print(stderr, "comex: the watcher ended: {}\n", error.what());
    return 1;
  }
}
