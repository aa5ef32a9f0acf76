#include "run/poke.h"

#include <dirent.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

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

// One line of /proc/PID/task/TID/status, from after its name; 0 if it is not there.
std::uint64_t status_of(pid_t process, pid_t thread, const char* field, int base) {
  const std::string path = fmt::format("/proc/{}/task/{}/status", process, thread);
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "re"), &std::fclose);
  std::array<char, 512> line{};
  while (file != nullptr && std::fgets(line.data(), line.size(), file.get()) != nullptr) {
    const std::size_t length = std::strlen(field);
    if (std::strncmp(line.data(), field, length) == 0) return std::strtoull(line.data() + length, nullptr, base);
  }
  return 0;
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
    for (const bool stopped : {true, false}) {  // nobody waits for those that take their time
      for (const Task& task : tasks_)
        if (task.stopped == stopped) let_go(task);
    }
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
  [[nodiscard]] bool handled() const {
    return (status_of(process_, tasks_.front().id, "SigCgt:", 16) & bit(SIGSYS)) != 0;
  }

  // Whether one of them is about to handle a signal of the program's. It decides how the call that it ends for goes on,
  // and our signal would come first.
  [[nodiscard]] bool disturbed() const {
    return std::ranges::any_of(tasks_, [this](const Task& task) { return signal_comes(task); });
  }

  // To all of them. Returns how many there are.
  std::uint32_t send() {
    const auto count = static_cast<std::uint32_t>(tasks_.size());
    for (const Task& task : tasks_) {
      set_back(task);
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
        tasks_[i].stopped = true;
        // Not an event of ptrace: a signal that is on its way, and goes on with the thread.
        if (status >> 16 == 0) tasks_[i].signal = WSTOPSIG(status);
        ++i;
      }
    }
    return {};
  }

  // The kernel has ended the system call that the thread was in, with a number that says how it would go on by itself.
  // With a handler to be called first it would not: most calls would fail with EINTR.
  void set_back(const Task& task) const {
    constexpr std::int64_t kRestart = -512;  // ERESTARTSYS, -NOINTR, -NOHAND, and -RESTARTBLOCK
    constexpr std::int64_t kRestartBlock = -516;
    user_regs_struct registers{};
    if (ptrace(PTRACE_GETREGS, task.id, nullptr, &registers) != 0) return;
    const auto number = static_cast<std::int64_t>(registers.orig_rax);
    const auto result = static_cast<std::int64_t>(registers.rax);
    if (number < 0) return;
    const bool again =
        (result <= kRestart && result >= kRestartBlock && result != -515) || (result == -EINTR && number != SYS_close);
    if (!again) return;
    registers.rax = registers.orig_rax;
    registers.rip -= 2;  // the instruction
    registers.orig_rax = ~0ULL;
    ptrace(PTRACE_SETREGS, task.id, nullptr, &registers);
  }

  [[nodiscard]] bool signal_comes(const Task& task) const {
    if (task.signal != 0) return true;
    const std::uint64_t pending =
        status_of(process_, task.id, "SigPnd:", 16) | status_of(process_, task.id, "ShdPnd:", 16);
    return (pending & ~status_of(process_, task.id, "SigBlk:", 16)) != 0;
  }

  static void open_mask(const Task& task) {
    constexpr auto kGet = static_cast<__ptrace_request>(0x420a);  // PTRACE_GETSIGMASK
    constexpr auto kSet = static_cast<__ptrace_request>(0x420b);
    std::uint64_t mask = 0;
    if (ptrace(kGet, task.id, sizeof mask, &mask) != 0) return;
    mask &= ~(bit(SIGSYS) | bit(SIGBUS));
    ptrace(kSet, task.id, sizeof mask, &mask);
  }

  static void let_go(const Task& task) {
    if (!task.stopped) {
      // Only what stands can be let go. It stops when it can, or ends; both end this wait.
      int status = 0;
      if (waitpid(task.id, &status, __WALL) < 0 || !WIFSTOPPED(status)) return;
      const int signal = status >> 16 == 0 ? WSTOPSIG(status) : 0;
      ptrace(PTRACE_DETACH, task.id, nullptr, static_cast<long>(signal));
      return;
    }
    ptrace(PTRACE_DETACH, task.id, nullptr, static_cast<long>(task.signal));
  }

  const pid_t process_;
  const pid_t spared_;
  std::vector<Task> tasks_;
};

}  // namespace

Expected<std::uint32_t> poke(pid_t process, pid_t spared, Deadline patience) {
  Stopped threads(process, spared);
  if (auto stopped = threads.stop(patience); !stopped) return std::move(stopped).error();
  if (!threads.handled()) return Error{Errc::busy, "it has no handler for the signal, or none yet"};
  if (threads.disturbed()) return Error{Errc::busy, "a signal is on its way to it"};
  return threads.send();
}

bool can_poke(pid_t process) {
  if (ptrace(PTRACE_SEIZE, process, nullptr, nullptr) != 0) return false;
  ptrace(PTRACE_INTERRUPT, process, nullptr, nullptr);
  int status = 0;
  if (waitpid(process, &status, __WALL) == process) ptrace(PTRACE_DETACH, process, nullptr, nullptr);
  return true;
}

}  // namespace comex
