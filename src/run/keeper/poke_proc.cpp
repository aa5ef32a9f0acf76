#include "run/keeper/poke_proc.h"

#include <dirent.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/fd.h"

namespace comex {
namespace {

using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

File open_of_thread(pid_t process, pid_t thread, const char* name) {
  const std::string path = fmt::format("/proc/{}/task/{}/{}", process, thread, name);
  return {std::fopen(path.c_str(), "re"), &std::fclose};
}

// To open what is said of a thread that is not there fails with the one, to read it with the other.
bool means_not_there(int error) {
  return error == ENOENT || error == ESRCH;
}

}  // namespace

bool process_has_ended(pid_t process) {
  const Fd whole(static_cast<int>(syscall(SYS_pidfd_open, process, 0)));
  if (!whole) return errno == ESRCH;
  pollfd ended{whole.get(), POLLIN, 0};
  return poll(&ended, 1, 0) == 1;
}

Expected<std::vector<pid_t>> threads_of(pid_t process) {
  const std::string path = fmt::format("/proc/{}/task", process);
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir(path.c_str()), &closedir);
  if (folder == nullptr) {
    const int error = errno;
    if (process_has_ended(process)) return Error{Errc::disconnected, "the process has ended"};
    return Error{Errc::busy, fmt::format("cannot read {}: {}", path, std::strerror(error))};
  }
  std::vector<pid_t> threads;
  while (const dirent* const entry = readdir(folder.get())) {
    if (const int id = std::atoi(entry->d_name); id > 0) threads.push_back(id);
  }
  return threads;
}

std::optional<char> thread_state(pid_t process, pid_t thread) {
  constexpr char kNotThere = 'X';
  errno = 0;
  const File file = open_of_thread(process, thread, "stat");
  std::array<char, 512> line{};
  if (file == nullptr || std::fgets(line.data(), line.size(), file.get()) == nullptr)
    return means_not_there(errno) ? std::optional(kNotThere) : std::nullopt;
  const char* const name_end = std::strrchr(line.data(), ')');
  if (name_end == nullptr || name_end[1] != ' ') return std::nullopt;
  return name_end[2];
}

bool thread_has_ended(pid_t process, pid_t thread) {
  const std::optional<char> state = thread_state(process, thread);
  return state && (*state == 'Z' || *state == 'X');
}

std::optional<SignalStatus> signal_status(pid_t process, pid_t thread) {
  const File file = open_of_thread(process, thread, "status");
  SignalStatus status;
  const std::array<std::pair<std::string_view, std::uint64_t*>, 4> fields{{{"SigPnd:", &status.own},
                                                                           {"ShdPnd:", &status.pending},
                                                                           {"SigBlk:", &status.blocked},
                                                                           {"SigCgt:", &status.handled}}};
  std::size_t found = 0;
  std::array<char, 512> line{};
  while (file != nullptr && std::fgets(line.data(), line.size(), file.get()) != nullptr) {
    for (const auto& [name, value] : fields) {
      if (!std::string_view(line.data()).starts_with(name)) continue;
      *value |= std::strtoull(line.data() + name.size(), nullptr, 16);
      ++found;
    }
  }
  status.pending |= status.own;
  return found == fields.size() ? std::optional(status) : std::nullopt;
}

}  // namespace comex
