#include "bench/paging/kernel_file.h"

#include <fmt/format.h>

#include <array>

#include "base/fd.h"

namespace comex::bench {

Expected<std::string> read_kernel_file(const std::string& path) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return system_error("cannot open " + path);
  std::string text;
  std::array<char, 4096> piece{};
  for (;;) {
    const ssize_t got = ::read(file.get(), piece.data(), piece.size());
    if (got < 0) return system_error("cannot read " + path);
    if (got == 0) break;
    text.append(piece.data(), static_cast<std::size_t>(got));
  }
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

Expected<void> write_kernel_file(const std::string& path, const std::string& text) {
  const Fd file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!file) return system_error("cannot open " + path);
  if (::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    return system_error(fmt::format("cannot write {} to {}", text, path));
  }
  return {};
}

}  // namespace comex::bench
