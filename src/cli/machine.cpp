#include "cli/machine.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/prctl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "base/fd.h"
#include "base/units.h"
#include "cli/command_line.h"
#include "cli/run_plan.h"
#include "node/host_memory.h"
#include "run/uffd_memory.h"

namespace comex {
namespace {

constexpr const char* kUdevRule = R"(KERNEL=="userfaultfd", GROUP="comex", MODE="0660")";

// The first line of a file; empty if there is none.
std::string line_of(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// --- needs ---

Finding check_kernel() {
  utsname name{};
  (void)uname(&name);
  Finding finding{"kernel", Verdict::ok, fmt::format("Linux {} on {}", name.release, name.machine), ""};
  if (std::string(name.machine) == "x86_64") return finding;
  finding.verdict = Verdict::missing;
  finding.remedy = "comex run needs x86-64";
  return finding;
}

Errc try_userfaultfd(Delivery delivery) {
  OwnMemory own;
  UffdMemory memory(own);
  const Errc opened = memory.open(delivery);
  if (opened == Errc::ok) memory.close();
  return opened;
}

std::string userfaultfd_remedy() {
  struct stat device {};
  if (::stat("/dev/userfaultfd", &device) != 0) return "run as root, or: sysctl vm.unprivileged_userfaultfd=1";
  return fmt::format(
      "run as root; or let a group open /dev/userfaultfd (now mode {:04o}): groupadd -f comex, put '{}' "
      "into /etc/udev/rules.d/60-comex.rules, and add this user to the group",
      device.st_mode & 07777, kUdevRule);
}

Finding check_userfaultfd(Delivery delivery) {
  Finding finding{"userfaultfd", Verdict::ok, "allowed", ""};
  switch (try_userfaultfd(delivery)) {
    case Errc::ok: return finding;
    case Errc::denied:
      finding.what = "no right to userfaultfd";
      finding.remedy = userfaultfd_remedy() + "; in a container, allow it in the seccomp profile";
      break;
    default:
      finding.what = "this kernel has no userfaultfd with write protection";
      finding.remedy = "use Linux 5.11 or later, built with CONFIG_USERFAULTFD";
  }
  finding.verdict = Verdict::missing;
  return finding;
}

Finding check_dispatch() {
  Finding finding{"system call dispatch", Verdict::ok, "Syscall User Dispatch is there", ""};
  if (prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_OFF, 0, 0, 0) == 0) return finding;
  return Finding{finding.check, Verdict::missing, "this kernel has no Syscall User Dispatch",
                 "use Linux 5.11 or later"};
}

Finding check_runtime() {
  for (const std::string& part : {runtime_library(), keeper_program(), watcher_program()}) {
    if (access(part.c_str(), R_OK) == 0) continue;
    return Finding{"runtime", Verdict::missing, part + " is not there, nor in ../lib/comex",
                   "install comex as a whole"};
  }
  return Finding{"runtime", Verdict::ok, runtime_library(), ""};
}

Finding check_memory_files() {
  const Fd file(memfd_create("comex-doctor", MFD_CLOEXEC));
  if (file && ftruncate(file.get(), kPageSize) == 0)
    return Finding{"memory files", Verdict::ok, "memfd_create works", ""};
  return Finding{"memory files", Verdict::missing, fmt::format("memfd_create fails: {}", std::strerror(errno)),
                 "raise the limits of this container or user"};
}

// What is too little for the runtime would be left alone by it, one program after the other.
Finding check_addresses() {
  rlimit limit{};
  (void)getrlimit(RLIMIT_AS, &limit);
  if (limit.rlim_cur == RLIM_INFINITY) return Finding{"addresses", Verdict::ok, "no limit", ""};
  Finding finding{"addresses", Verdict::ok, fmt::format("at most {} (ulimit -v)", format_size(limit.rlim_cur)), ""};
  if (limit.rlim_cur > OwnMemory::kReserve) return finding;
  finding.verdict = Verdict::missing;
  finding.remedy = fmt::format("comex needs {} of them in each process, which take no memory: `ulimit -v unlimited`",
                               format_size(OwnMemory::kReserve));
  return finding;
}

// --- comforts ---

// Programs that use io_uring or AIO wait for their pages inside the kernel.
Finding check_kernel_faults() {
  Finding finding{"faults in the kernel", Verdict::ok, "allowed", ""};
  if (try_userfaultfd(Delivery::message) == Errc::ok) return finding;
  return Finding{finding.check, Verdict::warning,
                 "no right to handle them: programs that need --faults message will fail", userfaultfd_remedy()};
}

// By doing it: one child traces another that is not its own.
Finding check_ptrace() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return Finding{"ptrace", Verdict::warning, "cannot make a pipe", ""};
  const Fd from(ends[0]);
  Fd to(ends[1]);
  const pid_t traced = fork();
  if (traced == 0) {
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);  // as a program under comex does
    to.reset();
    for (;;) pause();
  }
  to.reset();
  char nothing = 0;
  (void)!read(from.get(), &nothing, 1);  // until it has
  const pid_t tracer = traced > 0 ? fork() : -1;
  if (tracer == 0) _exit(ptrace(PTRACE_SEIZE, traced, nullptr, nullptr) == 0 ? 0 : 1);
  int status = 1;
  if (tracer > 0) waitpid(tracer, &status, 0);
  if (traced > 0) {
    kill(traced, SIGKILL);
    waitpid(traced, nullptr, 0);
  }
  if (status == 0) return Finding{"ptrace", Verdict::ok, "processes of this user can be traced", ""};
  const std::string scope = line_of("/proc/sys/kernel/yama/ptrace_scope");
  return Finding{"ptrace", Verdict::warning, "processes of this user cannot be traced by each other",
                 scope.empty() ? "allow ptrace in the container" : "sysctl kernel.yama.ptrace_scope=0"};
}

Finding check_memlock() {
  rlimit limit{};
  (void)getrlimit(RLIMIT_MEMLOCK, &limit);
  const bool enough = limit.rlim_cur == RLIM_INFINITY || geteuid() == 0;
  if (enough) return Finding{"locked memory", Verdict::ok, "no limit", ""};
  return Finding{"locked memory", Verdict::warning,
                 fmt::format("at most {}: `comex serve` may lend no more", format_size(limit.rlim_cur)),
                 "ulimit -l unlimited, LimitMEMLOCK=infinity, or comex serve --no-lock"};
}

Finding check_map_count() {
  constexpr unsigned long kUsual = 65530;
  const std::string text = line_of("/proc/sys/vm/max_map_count");
  const unsigned long count = std::strtoul(text.c_str(), nullptr, 10);
  if (count >= kUsual) return Finding{"mappings", Verdict::ok, fmt::format("{} per process", count), ""};
  return Finding{"mappings", Verdict::warning, fmt::format("only {} per process", count),
                 fmt::format("sysctl vm.max_map_count={}", kUsual)};
}

Finding check_overcommit() {
  const std::string mode = line_of("/proc/sys/vm/overcommit_memory");
  if (mode != "2") return Finding{"overcommit", Verdict::ok, "vm.overcommit_memory=" + mode, ""};
  return Finding{"overcommit", Verdict::warning,
                 "vm.overcommit_memory=2: programs larger than this machine get no addresses",
                 "sysctl vm.overcommit_memory=0"};
}

Finding check_huge_pages() {
  const std::string mode = line_of("/sys/kernel/mm/transparent_hugepage/enabled");
  return Finding{"huge pages", Verdict::ok, mode.empty() ? "none" : mode, ""};
}

Finding check_memory() {
  const auto host = read_host_memory();
  if (!host) return Finding{"memory", Verdict::warning, host.error().message, ""};
  RunSettings settings;
  settings.local.reset();
  const auto plan = plan_run(settings, *host, false);
  const std::string of = host->limited ? "this control group" : "this machine";
  if (!plan) return Finding{"memory", Verdict::warning, plan.error().message, ""};
  return Finding{"memory", Verdict::ok,
                 fmt::format("{} has {}, {} available; --local auto is {}", of, format_size(host->total),
                             format_size(host->available), format_size(plan->local)),
                 ""};
}

}  // namespace

std::string runtime_library() {
  return beside_this_program("libcomex-run.so");
}

std::string keeper_program() {
  return beside_this_program("comex-keeper");
}

std::string watcher_program() {
  return beside_this_program("comex-watcher");
}

std::vector<Finding> check_needs(Delivery delivery) {
  return {check_kernel(),       check_userfaultfd(delivery), check_dispatch(),
          check_memory_files(), check_addresses(),           check_runtime()};
}

std::optional<std::string> first_missing(const std::vector<Finding>& findings) {
  for (const Finding& finding : findings) {
    if (finding.verdict == Verdict::missing) return fmt::format("{}: {}", finding.what, finding.remedy);
  }
  return std::nullopt;
}

std::vector<Finding> check_comforts() {
  return {check_kernel_faults(), check_ptrace(),     check_memlock(), check_map_count(),
          check_overcommit(),    check_huge_pages(), check_memory()};
}

}  // namespace comex
