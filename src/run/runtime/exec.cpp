#include "run/runtime/exec.h"

#include <alloca.h>
#include <elf.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>

#include "run/room.h"
#include "run/runtime/process.h"
#include "run/runtime/real.h"
#include "run/runtime/signals.h"

namespace comex::runtime {
namespace {

constexpr const char* kPreload = "LD_PRELOAD";

// Empty: the process is not under comex.
char library[PATH_MAX];
char variable_entry[512];

constinit Real<int(const char*, char* const*, char* const*)> real_execve("execve");
constinit Real<int(const char*, char* const*, char* const*)> real_execvpe("execvpe");
constinit Real<int(int, char* const*, char* const*)> real_fexecve("fexecve");
using Spawn = int(pid_t*, const char*, const posix_spawn_file_actions_t*, const posix_spawnattr_t*, char* const*,
                  char* const*);
constinit Real<Spawn> real_posix_spawn("posix_spawn");
constinit Real<Spawn> real_posix_spawnp("posix_spawnp");

// Now: not in the child of a vfork, where the loader's locks may be held.
[[gnu::constructor(101)]] void find_all() {
  (void)real_execve.find(), (void)real_execvpe.find(), (void)real_fexecve.find();
  (void)real_posix_spawn.find(), (void)real_posix_spawnp.find();
}

// The value, if the entry is of this variable.
const char* value_of(const char* entry, const char* name) noexcept {
  const std::size_t length = std::strlen(name);
  return std::strncmp(entry, name, length) == 0 && entry[length] == '=' ? entry + length + 1 : nullptr;
}

const char* find(char* const* environment, const char* name) noexcept {
  for (char* const* entry = environment; entry != nullptr && *entry != nullptr; ++entry) {
    if (const char* const value = value_of(*entry, name); value != nullptr) return value;
  }
  return nullptr;
}

bool is_complete(char* const* environment) noexcept {
  const char* const preload = find(environment, kPreload);
  return preload != nullptr && std::strstr(preload, library) != nullptr &&
         find(environment, Room::kVariable) != nullptr;
}

bool has_interpreter(int fd) noexcept {
  Elf64_Ehdr header{};
  if (pread(fd, &header, sizeof header, 0) < 4) return false;
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return true;  // a script: its interpreter is what counts
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr part{};
    const auto at = static_cast<off_t>(header.e_phoff + i * sizeof part);
    if (pread(fd, &part, sizeof part, at) != static_cast<ssize_t>(sizeof part)) return false;
    if (part.p_type == PT_INTERP) return true;
  }
  return false;
}

// Whether anything can be preloaded into it: it is linked dynamically and runs as the same user. What cannot be read is
// for exec to deal with, and a name to be looked up is taken for granted: it does no harm.
bool is_fit(const char* path) noexcept {
  if (path == nullptr || std::strchr(path, '/') == nullptr) return true;
  const int before = errno;
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
  struct stat found {};
  const bool fit =
      fd < 0 || (fstat(fd, &found) == 0 && (found.st_mode & (S_ISUID | S_ISGID)) == 0 && has_interpreter(fd));
  if (fd >= 0) ::close(fd);
  errno = before;
  return fit;
}

// Of the runtime's two signals, those that the program ignores and the kernel does not know of. The gate is asked,
// which knows whose actions those of the caller are.
std::uint64_t ignored() noexcept {
  std::uint64_t found = 0;
  for (const int signal : {SIGBUS, SIGSYS}) {
    struct sigaction action {};
    const bool known = process.pager != nullptr && sigaction(signal, nullptr, &action) == 0;
    if (known && action.sa_handler == SIG_IGN) found |= Signals::bit(signal);
  }
  return found;
}

// How another program is executed: by this process, or by a child of it (posix_spawn), and what that puts back to its
// default of signals.
struct How {
  bool by_child = false;
  std::uint64_t to_default = 0;
};

// See exec.h.
void tell_ignored(char* at, char* end, std::uint64_t which, bool child) noexcept {
  const int self = getpid();
  *at++ = ' ';
  at = std::to_chars(at, end, which).ptr;
  *at++ = ' ';
  *std::to_chars(at, end, child ? -self : self).ptr = 0;
}

// Calls go(environment) with what is missing put in. On the stack: the child of a vfork has no memory of its own.
template <typename Go>
int with_ours(const char* path, char* const* environment, How how, Go&& go) noexcept {
  if (library[0] == 0) return go(environment);
  const std::uint64_t ignored = runtime::ignored() & ~how.to_default;
  if ((ignored == 0 && is_complete(environment)) || !is_fit(path)) return go(environment);
  std::size_t count = 0;
  while (environment != nullptr && environment[count] != nullptr) ++count;
  auto** const copy = static_cast<char**>(alloca((count + 3) * sizeof(char*)));
  const char* const theirs = find(environment, kPreload);
  const bool has_ours = theirs != nullptr && std::strstr(theirs, library) != nullptr;
  const std::size_t room =
      std::strlen(kPreload) + std::strlen(library) + (theirs != nullptr ? std::strlen(theirs) : 0) + 3;
  auto* const preload = static_cast<char*>(alloca(room));
  char* end = stpcpy(stpcpy(preload, kPreload), "=");
  if (!has_ours) end = stpcpy(end, library);
  if (theirs != nullptr && *theirs != 0) stpcpy(has_ours ? end : stpcpy(end, ":"), theirs);
  char variable[sizeof variable_entry + 48];
  char* const variable_end = stpcpy(variable, variable_entry);
  if (ignored != 0) tell_ignored(variable_end, std::end(variable) - 1, ignored, how.by_child);
  std::size_t used = 0;
  copy[used++] = variable;
  copy[used++] = preload;
  for (std::size_t i = 0; i < count; ++i) {
    const bool replaced =
        value_of(environment[i], kPreload) != nullptr || value_of(environment[i], Room::kVariable) != nullptr;
    if (!replaced) copy[used++] = environment[i];
  }
  copy[used] = nullptr;
  return go(static_cast<char* const*>(copy));
}

How by_child(const posix_spawnattr_t* attributes) noexcept {
  How how{.by_child = true};
  short flags = 0;
  sigset_t set;
  if (attributes == nullptr || posix_spawnattr_getflags(attributes, &flags) != 0) return how;
  if ((flags & POSIX_SPAWN_SETSIGDEF) == 0 || posix_spawnattr_getsigdefault(attributes, &set) != 0) return how;
  for (const int signal : {SIGBUS, SIGSYS}) {
    if (sigismember(&set, signal) == 1) how.to_default |= Signals::bit(signal);
  }
  return how;
}

}  // namespace

void remember_environment(const char* variable) noexcept {
  Dl_info self{};
  if (dladdr(reinterpret_cast<const void*>(&remember_environment), &self) == 0 || self.dli_fname == nullptr) return;
  const std::size_t name = std::strlen(Room::kVariable);
  if (name + std::strlen(variable) + 2 > sizeof variable_entry || std::strlen(self.dli_fname) >= sizeof library) return;
  stpcpy(stpcpy(stpcpy(variable_entry, Room::kVariable), "="), variable);
  std::strcpy(library, self.dli_fname);
}

}  // namespace comex::runtime

using namespace comex::runtime;

COMEX_TAKEN_OVER int execve(const char* path, char* const* arguments, char* const* environment) noexcept {
  return with_ours(path, environment, {}, [&](char* const* ours) { return real_execve(path, arguments, ours); });
}
COMEX_TAKEN_OVER int execv(const char* path, char* const* arguments) noexcept {
  return execve(path, arguments, environ);
}
COMEX_TAKEN_OVER int execvpe(const char* file, char* const* arguments, char* const* environment) noexcept {
  return with_ours(file, environment, {}, [&](char* const* ours) { return real_execvpe(file, arguments, ours); });
}
COMEX_TAKEN_OVER int execvp(const char* file, char* const* arguments) noexcept {
  return execvpe(file, arguments, environ);
}
COMEX_TAKEN_OVER int fexecve(int fd, char* const* arguments, char* const* environment) noexcept {
  return with_ours(nullptr, environment, {}, [&](char* const* ours) { return real_fexecve(fd, arguments, ours); });
}
COMEX_TAKEN_OVER int posix_spawn(pid_t* child, const char* path, const posix_spawn_file_actions_t* actions,
                                 const posix_spawnattr_t* attributes, char* const* arguments,
                                 char* const* environment) {
  return with_ours(path, environment, by_child(attributes), [&](char* const* ours) {
    return real_posix_spawn(child, path, actions, attributes, arguments, ours);
  });
}
COMEX_TAKEN_OVER int posix_spawnp(pid_t* child, const char* file, const posix_spawn_file_actions_t* actions,
                                  const posix_spawnattr_t* attributes, char* const* arguments,
                                  char* const* environment) {
  return with_ours(file, environment, by_child(attributes), [&](char* const* ours) {
    return real_posix_spawnp(child, file, actions, attributes, arguments, ours);
  });
}
