#include "cli/profile_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "trace/profile.h"

namespace comex {
namespace {

bool is_profile(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string begin(Profile::kMagic.size(), '\0');
  file.read(begin.data(), static_cast<std::streamsize>(begin.size()));
  return file.gcount() == 0 || begin == Profile::kMagic;
}

}  // namespace

Expected<std::string> find_profile(const std::string& path) {
  std::error_code failed;
  const auto invalid = [&](const std::string& why) {
    return Error{Errc::invalid, fmt::format("--profile {}: {}", path, why)};
  };
  const std::filesystem::path whole = std::filesystem::weakly_canonical(std::filesystem::absolute(path), failed);
  if (failed) return invalid(failed.message());
  const auto status = std::filesystem::status(whole, failed);
  if (std::filesystem::exists(status)) {
    if (!std::filesystem::is_regular_file(status)) return invalid("it is no file");
    if (access(whole.c_str(), R_OK) != 0) return invalid(fmt::format("cannot read it: {}", std::strerror(errno)));
    if (!is_profile(whole)) return invalid("what is there is no profile; name another file, or remove it");
  }
  const std::filesystem::path folder = whole.parent_path();
  if (access(folder.c_str(), W_OK | X_OK) != 0) {
    return invalid(fmt::format("cannot write in {}: {}", folder.string(), std::strerror(errno)));
  }
  return whole.string();
}

}  // namespace comex
