#include "cli/program.h"

#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "base/fd.h"
#include "cli/report.h"

namespace comex {
namespace {

constexpr int kMostInterpreters = 5;  // of scripts whose interpreter is a script: as the kernel has it

Refusal unsuited(std::string why) {
  return Refusal{kExitBadUsage, std::move(why)};
}

// The loader ignores what is to be preloaded when the kernel says that the program has more rights than its caller.
std::optional<Refusal> examine_rights(const std::string& path, const struct stat& found, const Privileges& privileges) {
  struct statvfs system {};
  const bool ignored = ::statvfs(path.c_str(), &system) == 0 && (system.f_flag & ST_NOSUID) != 0;
  if (privileges.no_more || ignored) return std::nullopt;
  const bool user = (found.st_mode & S_ISUID) != 0 && found.st_uid != privileges.user;
  const bool group = (found.st_mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP) && found.st_gid != privileges.group;
  if (user || group) {
    return unsuited(
        fmt::format("it runs as another {0} (set{1}), and the loader then preloads nothing; run it as that "
                    "{0}, or without comex",
                    user ? "user" : "group", user ? "uid" : "gid"));
  }
  if (privileges.user != 0 && ::getxattr(path.c_str(), "security.capability", nullptr, 0) > 0) {
    return unsuited(
        "it has file capabilities, and the loader then preloads nothing; run it as root, or from a copy without them");
  }
  return std::nullopt;
}

std::optional<Refusal> examine_elf(const Fd& file) {
  Elf64_Ehdr header{};
  const bool whole = ::pread(file.get(), &header, sizeof header, 0) == static_cast<ssize_t>(sizeof header);
  if (!whole || header.e_ident[EI_CLASS] != ELFCLASS64) {
    return unsuited("it is not a 64-bit program; comex runs x86-64 programs only");
  }
  if (header.e_machine != EM_X86_64) {
    return unsuited("it is for another processor; comex runs x86-64 programs only");
  }
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr part{};
    const auto at = static_cast<off_t>(header.e_phoff + i * sizeof part);
    if (::pread(file.get(), &part, sizeof part, at) != static_cast<ssize_t>(sizeof part)) break;
    if (part.p_type != PT_INTERP) continue;
    std::array<char, 256> loader{};
    const std::size_t size = std::min<std::size_t>(part.p_filesz, loader.size() - 1);
    if (::pread(file.get(), loader.data(), size, static_cast<off_t>(part.p_offset)) < 0) break;
    if (::access(loader.data(), X_OK) != 0) {
      return Refusal{kExitNotFound, fmt::format("its loader {} is not there", loader.data())};
    }
    if (std::strstr(loader.data(), "/ld-musl") == nullptr) return std::nullopt;
    return unsuited("it uses musl, and the runtime needs glibc; use a build for this distribution");
  }
  return unsuited("it is statically linked, so nothing can be loaded into it; use a dynamically linked build");
}

// The interpreter of a script; empty if there is none.
std::string interpreter_of(std::string_view start) {
  start = start.substr(2, start.find('\n') - 2);
  start.remove_prefix(std::min(start.find_first_not_of(" \t"), start.size()));
  return std::string(start.substr(0, start.find_first_of(" \t\r")));
}

}  // namespace

std::string find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) return ::access(name.c_str(), F_OK) == 0 ? name : "";
  const char* const variable = std::getenv("PATH");
  const std::string path = variable != nullptr ? variable : "/usr/local/bin:/usr/bin:/bin";
  for (std::size_t at = 0; at <= path.size();) {
    const std::size_t end = std::min(path.find(':', at), path.size());
    std::string candidate = (end == at ? "." : path.substr(at, end - at)) + "/" + name;
    struct stat found {};
    if (::stat(candidate.c_str(), &found) == 0 && S_ISREG(found.st_mode) && ::access(candidate.c_str(), X_OK) == 0) {
      return candidate;
    }
    at = end + 1;
  }
  return "";
}

Privileges Privileges::here() {
  return Privileges{::geteuid(), ::getegid(), ::prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1};
}

std::optional<Refusal> examine_program(const std::string& path, const Privileges& privileges) {
  std::string at = path;
  for (int i = 0; i < kMostInterpreters; ++i) {
    struct stat found {};
    if (::stat(at.c_str(), &found) != 0) {
      return Refusal{kExitNotFound, i == 0 ? "not found" : fmt::format("its interpreter {} is not there", at)};
    }
    if (S_ISDIR(found.st_mode)) return Refusal{kExitNotRunnable, "it is a folder"};
    if (!S_ISREG(found.st_mode) || ::access(at.c_str(), X_OK) != 0) {
      return Refusal{kExitNotRunnable, i == 0 ? "it is not executable" : fmt::format("{} is not executable", at)};
    }
    if (auto refusal = examine_rights(at, found, privileges)) return refusal;
    const Fd file(::open(at.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file) return std::nullopt;  // may be run, not read: nothing to be learnt
    std::array<char, 256> start{};
    const ssize_t size = ::pread(file.get(), start.data(), start.size(), 0);
    const std::string_view text(start.data(), size > 0 ? static_cast<std::size_t>(size) : 0);
    if (text.starts_with(ELFMAG)) return examine_elf(file);
    const std::string interpreter = text.starts_with("#!") ? interpreter_of(text) : "";
    if (interpreter.empty()) {
      return Refusal{kExitNotRunnable,
                     fmt::format("{} is neither a program nor a script that names its interpreter (#!)", at)};
    }
    at = interpreter;
  }
  return Refusal{kExitNotRunnable, "too many interpreters, each a script"};
}

}  // namespace comex
