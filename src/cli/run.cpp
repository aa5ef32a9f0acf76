#include "cli/run.h"

#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/units.h"
#include "cli/config_flags.h"
#include "cli/link_options.h"
#include "cli/report.h"
#include "node/host_memory.h"
#include "run/keeper_main.h"
#include "run/room.h"
#include "run/uffd_memory.h"

namespace comex {
namespace {

constexpr int kExitNotRunnable = 126;
constexpr int kExitNotFound = 127;
constexpr std::uint64_t kLeastLocal = std::uint64_t{16} << 20;
constexpr std::uint64_t kLeastOwnNode = std::uint64_t{1} << 30;

struct RunSettings {
  std::string local = "512M";
  std::vector<std::string> command;
};

// As execvp would find it; empty if there is none.
std::string find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) return access(name.c_str(), F_OK) == 0 ? name : "";
  const char* const variable = std::getenv("PATH");
  std::string path = variable != nullptr ? variable : "/usr/local/bin:/usr/bin:/bin";
  for (std::size_t at = 0; at <= path.size();) {
    const std::size_t end = std::min(path.find(':', at), path.size());
    std::string candidate = (end == at ? "." : path.substr(at, end - at)) + "/" + name;
    struct stat found {};
    if (stat(candidate.c_str(), &found) == 0 && S_ISREG(found.st_mode) && access(candidate.c_str(), X_OK) == 0) {
      return candidate;
    }
    at = end + 1;
  }
  return "";
}

// Why a program cannot have the runtime loaded into it; empty if it can.
std::string unfit(const std::string& path) {
  struct stat found {};
  if (stat(path.c_str(), &found) == 0 && (found.st_mode & (S_ISUID | S_ISGID)) != 0 && geteuid() != 0) {
    return "it runs as another user (setuid), and the loader then ignores what is to be preloaded";
  }
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  Elf64_Ehdr header{};
  if (!file || pread(file.get(), &header, sizeof header, 0) < 4) return "";
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return "";  // a script: its interpreter is what counts
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != EM_X86_64) return "it is not an x86-64 program";
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr part{};
    const auto at = static_cast<off_t>(header.e_phoff + i * sizeof part);
    if (pread(file.get(), &part, sizeof part, at) != static_cast<ssize_t>(sizeof part)) return "";
    if (part.p_type == PT_INTERP) return "";
  }
  return "it is statically linked, so nothing can be preloaded; build it with dynamic linking";
}

// The runtime lies beside this program, or where an installation puts it.
std::string find_runtime() {
  std::array<char, 4096> self{};
  const ssize_t length = readlink("/proc/self/exe", self.data(), self.size() - 1);
  std::string folder(self.data(), length > 0 ? static_cast<std::size_t>(length) : 0);
  folder.resize(folder.rfind('/') == std::string::npos ? 0 : folder.rfind('/'));
  for (const char* const place : {"/libcomex-run.so", "/../lib/comex/libcomex-run.so"}) {
    if (access((folder + place).c_str(), R_OK) == 0) return folder + place;
  }
  return "";
}

Expected<void> check_userfaultfd() {
  OwnMemory own;
  UffdMemory memory(own);
  switch (memory.open(UffdMemory::Delivery::inline_signal)) {
    case Errc::ok: memory.forget_parent(); return {};
    case Errc::denied:
      return Error{Errc::invalid,
                   "no right to userfaultfd: run as root, or let this user open /dev/userfaultfd, or set "
                   "vm.unprivileged_userfaultfd=1"};
    default: return Error{Errc::invalid, "this kernel has no userfaultfd with the features that are needed"};
  }
}

Expected<KeeperOptions> plan(const RunSettings& settings, const Config& config) {
  KeeperOptions options;
  auto local = parse_size(settings.local);
  if (!local) return Error{Errc::invalid, "--local: " + local.error().message};
  if (*local < kLeastLocal) {
    return Error{Errc::invalid, fmt::format("--local {}: the least is {}", settings.local, format_size(kLeastLocal))};
  }
  options.local = *local;
  auto link = link_options(config.pool, settings.command.front());
  if (!link) return std::move(link).error();
  options.pool.link = *std::move(link);
  options.pool.nodes = config.pool.nodes;
  if (!options.pool.nodes.empty()) return options;
  auto memory = read_host_memory();
  if (!memory) return std::move(memory).error();
  options.own_memory = std::min(spare_memory(*memory), std::max(4 * options.local, kLeastOwnNode));
  if (options.own_memory == 0)
    return Error{Errc::no_memory, "no pool is configured, and this host has no memory to spare"};
  fmt::print(stderr, "comex: no pool is configured: {} of this machine is lent for as long as the program runs\n",
             format_size(options.own_memory));
  return options;
}

int run(const RunSettings& settings, const Config& config) {
  const std::string& name = settings.command.front();
  const std::string program = find_program(name);
  if (program.empty()) return fail(fmt::format("cannot run {}: not found", name), kExitNotFound);
  if (const std::string why = unfit(program); !why.empty()) {
    return fail(fmt::format("cannot run {}: {}", name, why), kExitNotRunnable);
  }
  const std::string runtime = find_runtime();
  if (runtime.empty())
    return fail("libcomex-run.so is not beside this program; install comex as a whole", kExitBadUsage);
  if (auto usable = check_userfaultfd(); !usable) return fail(usable.error());
  auto options = plan(settings, config);
  if (!options) return fail(options.error().message, kExitBadUsage);
  auto variable = start_keeper(*options);
  if (!variable) return fail(variable.error().message, kExitBadUsage);

  const char* const before = std::getenv("LD_PRELOAD");
  const std::string preload = before != nullptr && *before != 0 ? runtime + ":" + before : runtime;
  setenv("LD_PRELOAD", preload.c_str(), 1);
  setenv(Room::kVariable, variable->c_str(), 1);
  std::vector<char*> arguments;
  for (const std::string& argument : settings.command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  execv(program.c_str(), arguments.data());
  const int error = errno;
  return fail(fmt::format("cannot run {}: {}", name, std::strerror(error)),
              error == ENOENT ? kExitNotFound : kExitNotRunnable);
}

}  // namespace

void add_run(CLI::App& app, int& exit_code) {
  CLI::App& command = *app.add_subcommand("run", "Run a program with more memory than it may keep here (experimental)");
  auto flags = std::make_shared<ConfigFlags>();
  auto settings = std::make_shared<RunSettings>();
  command.add_option("--local", settings->local, "How much of its memory the program may keep on this machine (512M)")
      ->type_name("SIZE");
  flags->add(command, "--pool", "pool.nodes", "URL,...", "Memory nodes to use (one of its own on this machine)");
  flags->add(command, "--secret-file", "pool.secret_file", "FILE", "The secret shared with them");
  command.add_option("command", settings->command, "The program and its arguments, after --")->required();
  command.positionals_at_end();
  command.callback([flags, settings, &exit_code] {
    const auto config = flags->load();
    exit_code = config ? run(*settings, *config) : fail(config.error());
  });
}

}  // namespace comex
