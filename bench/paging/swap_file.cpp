#include "bench/paging/swap_file.h"

#include <fmt/format.h>

#include "base/fd.h"
#include "base/units.h"

namespace comex::bench {

namespace {

constexpr std::string_view kName = "comex-bench-paging.swap";

std::string path_in(const std::string& folder) {
  return fmt::format("{}/{}", folder, kName);
}

Error no_space(int why, const std::string& path, std::uint64_t bytes) {
  errno = why;
  return system_error(fmt::format("cannot make {} of {}", path, format_size(bytes)));
}

}  // namespace

Expected<std::unique_ptr<SwapArea>> SwapFile::create(const std::string& folder, std::uint64_t bytes) {
  const std::string path = path_in(folder);
  const Fd file(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file) return system_error("cannot create " + path);
  std::unique_ptr<SwapFile> area(new SwapFile(path));
  // The header goes first: what a run leaves that is killed right here is recognised by it.
  if (::ftruncate(file.get(), static_cast<off_t>(bytes)) != 0) return no_space(errno, path, bytes);
  Expected<void> written = write_swap_header(path, bytes);
  if (!written) return written.error();
  if (const int why = ::posix_fallocate(file.get(), 0, static_cast<off_t>(bytes)); why != 0) {
    return no_space(why, path, bytes);
  }
  return std::unique_ptr<SwapArea>(std::move(area));
}

SwapFile::~SwapFile() {
  ::unlink(path_.c_str());
}

Expected<void> SwapFile::remove_leftovers(const std::string& folder, const std::vector<std::string>& swaps) {
  for (const std::string& path : swaps) {
    if (!path.ends_with(fmt::format("/{}", kName)) || !has_our_swap_header(path)) continue;
    Expected<void> stopped = stop_swapping(path);
    if (!stopped) return stopped;
    ::unlink(path.c_str());
  }
  const std::string path = path_in(folder);
  if (has_our_swap_header(path) && ::unlink(path.c_str()) != 0) return system_error("cannot remove " + path);
  return {};
}

}  // namespace comex::bench
