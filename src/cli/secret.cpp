#include "cli/secret.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/fd.h"

namespace comex {
namespace {

Expected<std::string> read_up_to(int fd, std::size_t limit, const std::string& path) {
  std::string bytes(limit, '\0');
  std::size_t filled = 0;
  while (filled < limit) {
    const ssize_t got = ::read(fd, bytes.data() + filled, limit - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_error(fmt::format("cannot read the secret file {}", path));
    if (got == 0) break;
    filled += static_cast<std::size_t>(got);
  }
  bytes.resize(filled);
  return bytes;
}

}  // namespace

Expected<std::string> read_secret(const std::string& path) {
  // Non-blocking, or a named pipe would hang us before we see that it is one.
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) {
    const bool missing = errno == ENOENT;
    auto error = system_error(fmt::format("cannot open the secret file {}", path));
    if (missing) error.message += fmt::format("; make one: (umask 077; openssl rand -hex 32 > {})", path);
    return error;
  }
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return system_error(fmt::format("cannot look at the secret file {}", path));
  if (!S_ISREG(status.st_mode)) return Error{Errc::invalid, fmt::format("the secret file {} is not a file", path)};
  if ((status.st_mode & 077) != 0) {
    return Error{Errc::denied, fmt::format("the secret file {} can be read by others: chmod 600 {}", path, path)};
  }

  auto secret = read_up_to(file.get(), kLongestSecret + 1, path);
  if (!secret) return secret;
  if (secret->ends_with('\n')) secret->pop_back();
  if (secret->size() > kLongestSecret) {
    return Error{Errc::invalid, fmt::format("the secret file {} is larger than {} bytes; make a new one: openssl rand "
                                            "-hex 32 > {}",
                                            path, kLongestSecret, path)};
  }
  if (secret->size() < kShortestSecret) {
    return Error{Errc::invalid,
                 fmt::format("the secret in {} has {} bytes, fewer than {}; make a new one: openssl rand "
                             "-hex 32 > {}",
                             path, secret->size(), kShortestSecret, path)};
  }
  return secret;
}

}  // namespace comex
