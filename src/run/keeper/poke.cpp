#include "run/keeper/poke.h"

#include <dirent.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "run/keeper/poke_call.h"
#include "run/poke_desk.h"
#include "run/poke_value.h"

namespace comex {
namespace {

// How long between looks at a thread that has not stopped yet.
constexpr std::chrono::microseconds kLook{100};

constexpr std::uint64_t bit(int signal) {
  return std::uint64_t{1} << (signal - 1);
}

struct Task {
  pid_t id = 0;
  bool stopped = false;
  int signal = 0;  // that it was about to be handed when it stopped
};

// What a thread does about signals, as /proc/PID/task/TID/status has it; nothing if it is not there.
struct SignalStatus {
  std::uint64_t pending = 0;  // for it, or for the process
  std::uint64_t blocked = 0;
  std::uint64_t handled = 0;
};

SignalStatus signal_status(pid_t process, pid_t thread) {
  const std::string path = fmt::format("/proc/{}/task/{}/status", process, thread);
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "re"), &std::fclose);
  SignalStatus status;
  const std::array<std::pair<std::string_view, std::uint64_t*>, 4> fields{{{"SigPnd:", &status.pending},
                                                                           {"ShdPnd:", &status.pending},
                                                                           {"SigBlk:", &status.blocked},
                                                                           {"SigCgt:", &status.handled}}};
  std::array<char, 512> line{};
  while (file != nullptr && std::fgets(line.data(), line.size(), file.get()) != nullptr) {
    for (const auto& [name, value] : fields) {
      if (std::string_view(line.data()).starts_with(name))
        *value |= std::strtoull(line.data() + name.size(), nullptr, 16);
    }
  }
  return status;
}

bool has_ended(pid_t process, pid_t thread) {
  const std::string path = fmt::format("/proc/{}/task/{}/stat", process, thread);
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "re"), &std::fclose);
  std::array<char, 512> line{};
  if (file == nullptr || std::fgets(line.data(), line.size(), file.get()) == nullptr) return true;
  const char* const name_end = std::strrchr(line.data(), ')');
  const char state = name_end != nullptr && name_end[1] == ' ' ? name_end[2] : 'X';
  return state == 'Z' || state == 'X';
}

// The threads of a process, stopped. Those that are still there run on when this goes.
class Stopped {
 public:
  Stopped(pid_t process, pid_t spared) : process_(process), spared_(spared) {}
  ~Stopped() {
    // Nobody waits for those that take their time.
    std::stable_partition(tasks_.begin(), tasks_.end(), [](const Task& task) { return task.stopped; });
    for (Task& task : tasks_) let_go(task);
  }
  Stopped(const Stopped&) = delete;
  Stopped& operator=(const Stopped&) = delete;

  Expected<void> stop(Deadline patience) {
    // A thread that runs can make another: until a look finds no new one while all that are known stand still.
    for (;;) {
      auto found = seize();
      if (!found) return std::move(found).error();
      if (*found == 0) break;
      if (auto stood = wait(patience); !stood) return stood;
    }
    if (tasks_.empty()) return Error{Errc::disconnected, "the process has ended"};
    return {};
  }

  // Whether they have a handler for the signal. One that has become another program has none yet, and would end.
  [[nodiscard]] bool handled() const { return (signal_status(process_, tasks_.front().id).handled & bit(SIGSYS)) != 0; }

  // Whether one of them is about to handle a signal of the program's. It decides how the call that it ends for goes on,
  // and our signal would come first. Or it has a SIGSYS, blocked or not: there is room for one, so ours would be lost.
  [[nodiscard]] bool disturbed() const {
    return std::ranges::any_of(tasks_, [this](const Task& task) {
      const SignalStatus status = signal_status(process_, task.id);
      return signal_comes(task, status) || (status.pending & bit(SIGSYS)) != 0;
    });
  }

  // Has one of them put the handler in place that the desk says. Then nothing may fail any more: what was there before
  // is lost if this is done twice.
  Expected<void> install(std::uint64_t desk) {
    PokeDesk there;
    const iovec here_part{&there, sizeof there};
    const iovec there_part{reinterpret_cast<void*>(desk), sizeof there};
    const bool read = process_vm_readv(process_, &here_part, 1, &there_part, 1, 0) == ssize_t{sizeof there};
    if (!read || there.mark != PokeDesk::kMark) return Error{Errc::busy, "it is another program by now"};
    const ForeignCall call{
        there.call,
        SYS_rt_sigaction,
        {SIGSYS, desk + offsetof(PokeDesk, ours), desk + offsetof(PokeDesk, found), sizeof there.ours.mask}};
    for (Task& task : tasks_) {
      auto result = make_call(task.id, call, &task.signal);
      if (!result && result.error().code == Errc::unsupported) continue;
      if (!result) return std::move(result).error();
      if (*result != 0) return Error{Errc::denied, "it may not handle a signal"};
      return {};
    }
    return Error{Errc::unsupported, "it has no thread of 64 bits"};
  }

  // To all of them. Returns how many there are.
  std::uint32_t send() {
    const auto count = static_cast<std::uint32_t>(tasks_.size());
    sent_ = true;
    for (const Task& task : tasks_) {
      set_back(task.id);
      open_mask(task);
      siginfo_t info{};
      info.si_signo = SIGSYS;
      info.si_code = SI_QUEUE;
      info.si_value.sival_ptr = reinterpret_cast<void*>(PokeValue::of(count));
      syscall(SYS_rt_tgsigqueueinfo, process_, task.id, SIGSYS, &info);
    }
    return count;
  }

 private:
  // Takes hold of the threads that are not yet held, and tells them to stop. Returns how many.
  Expected<std::size_t> seize() {
    const std::string path = fmt::format("/proc/{}/task", process_);
    const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir(path.c_str()), &closedir);
    if (folder == nullptr) return Error{Errc::disconnected, "the process has ended"};
    std::size_t found = 0;
    while (const dirent* const entry = readdir(folder.get())) {
      const auto id = static_cast<pid_t>(std::atoi(entry->d_name));
      if (id <= 0 || knows(id) || id == spared_) continue;
      if (ptrace(PTRACE_SEIZE, id, nullptr, nullptr) != 0) {
        const int error = errno;
        if (error == ESRCH || has_ended(process_, id)) continue;
        return Error{Errc::denied, fmt::format("cannot stop a thread (ptrace): {}", std::strerror(error))};
      }
      ptrace(PTRACE_INTERRUPT, id, nullptr, nullptr);
      tasks_.push_back(Task{id});
      ++found;
    }
    return found;
  }

  [[nodiscard]] bool knows(pid_t id) const {
    return std::ranges::any_of(tasks_, [id](const Task& task) { return task.id == id; });
  }

  Expected<void> wait(Deadline patience) {
    for (std::size_t i = 0; i < tasks_.size();) {
      if (tasks_[i].stopped) {
        ++i;
        continue;
      }
      int status = 0;
      const pid_t got = waitpid(tasks_[i].id, &status, __WALL | WNOHANG);
      if (got == 0) {
        if (patience.passed()) return Error{Errc::timeout, "a thread does not stop"};
        std::this_thread::sleep_for(kLook);
      } else if (got < 0 || !WIFSTOPPED(status)) {
        tasks_.erase(tasks_.begin() + static_cast<std::ptrdiff_t>(i));  // ended
      } else {
        note_stop(tasks_[i++], status);
      }
    }
    return {};
  }

  static bool signal_comes(const Task& task, const SignalStatus& status) {
    return task.signal != 0 || (status.pending & ~status.blocked) != 0;
  }

  static void open_mask(const Task& task) {
    std::uint64_t mask = 0;
    if (get_mask(task.id, &mask)) set_mask(task.id, mask & ~(bit(SIGSYS) | bit(SIGBUS)));
  }

  void let_go(Task& task) const {
    if (!task.stopped) {
      // Only what stands can be let go. It stops when it can, or ends; both end this wait.
      int status = 0;
      if (waitpid(task.id, &status, __WALL) < 0 || !WIFSTOPPED(status)) return;
      note_stop(task, status);
    }
    if (!sent_ && !signal_comes(task, signal_status(process_, task.id))) set_back_interrupted(task.id);
    ptrace(PTRACE_DETACH, task.id, nullptr, static_cast<long>(task.signal));
  }

  static void note_stop(Task& task, int status) {
    task.stopped = true;
    // Not an event of ptrace: a signal that is on its way, and goes on with the thread.
    if (status >> 16 == 0) task.signal = WSTOPSIG(status);
  }

  const pid_t process_;
  const pid_t spared_;
  std::vector<Task> tasks_;
  bool sent_ = false;
};

}  // namespace

Expected<std::uint32_t> poke(pid_t process, pid_t spared, std::uint64_t desk, Deadline patience) {
  Stopped threads(process, spared);
  if (auto stopped = threads.stop(patience); !stopped) return std::move(stopped).error();
  if (desk == 0 && !threads.handled()) return Error{Errc::busy, "it has no handler for the signal"};
  if (threads.disturbed()) return Error{Errc::busy, "a signal is on its way to it"};
  if (desk != 0) {
    if (auto installed = threads.install(desk); !installed) return std::move(installed).error();
  }
  return threads.send();
}

}  // namespace comex
