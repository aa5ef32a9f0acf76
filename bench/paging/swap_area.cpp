#include "bench/paging/swap_area.h"

#include <fmt/format.h>
#include <sys/swap.h>

#include <cstring>
#include <sstream>

#include "base/fd.h"
#include "bench/paging/kernel_file.h"

namespace comex::bench {

namespace {

// The first page of a swap area, as include/linux/swap.h has it. It ends with the signature.
constexpr std::size_t kVersionAt = 1024;  // version, last page, number of bad pages: 32 bits each
constexpr std::size_t kLabelAt = 1052;    // after a UUID, which we leave empty
constexpr std::string_view kSignature = "SWAPSPACE2";
constexpr std::string_view kLabel = "comex-bench";  // at most 16 bytes

std::size_t system_page() {
  return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

// "\040" is a space: three octal digits.
std::string unescape(const std::string& text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size()) {
      plain += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
      i += 3;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

}  // namespace

Expected<SwapOn> SwapOn::start(const std::string& path) {
  if (::swapon(path.c_str(), 0) != 0) {
    return system_error(errno == EINVAL ? fmt::format("cannot swap to {}; its file system may not carry swap", path)
                                        : "cannot swap to " + path);
  }
  return SwapOn(path);
}

SwapOn::~SwapOn() {
  if (!path_.empty()) static_cast<void>(stop_swapping(path_));  // one that stays on is taken off by the next run
}

Expected<void> stop_swapping(const std::string& path) {
  // A signal interrupts it while pages are on their way back; Ctrl-C must not leave it half done.
  constexpr int kTries = 10;
  for (int i = 0; i < kTries; ++i) {
    if (::swapoff(path.c_str()) == 0) return {};
    if (errno != EINTR) break;
  }
  return system_error("cannot stop swapping to " + path);
}

Expected<void> write_swap_header(const std::string& path, std::uint64_t bytes) {
  const Fd file(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!file) return system_error("cannot open " + path);
  std::string page(system_page(), '\0');
  const std::uint32_t fields[] = {1, static_cast<std::uint32_t>(bytes / page.size() - 1), 0};
  std::memcpy(page.data() + kVersionAt, fields, sizeof fields);
  std::memcpy(page.data() + kLabelAt, kLabel.data(), kLabel.size());
  std::memcpy(page.data() + page.size() - kSignature.size(), kSignature.data(), kSignature.size());
  if (::pwrite(file.get(), page.data(), page.size(), 0) != static_cast<ssize_t>(page.size()) ||
      ::fsync(file.get()) != 0) {
    return system_error("cannot write a swap header to " + path);
  }
  return {};
}

bool has_our_swap_header(const std::string& path) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  std::string page(system_page(), '\0');
  if (!file || ::pread(file.get(), page.data(), page.size(), 0) != static_cast<ssize_t>(page.size())) return false;
  return page.ends_with(kSignature) && std::strcmp(page.data() + kLabelAt, kLabel.data()) == 0;
}

std::vector<std::string> parse_swaps(std::string_view text) {
  std::vector<std::string> paths;
  std::istringstream lines{std::string(text)};
  std::string line;
  std::getline(lines, line);  // the head of the table
  while (std::getline(lines, line)) {
    const std::string path = line.substr(0, line.find_first_of(" \t"));
    if (!path.empty()) paths.push_back(unescape(path));
  }
  return paths;
}

Expected<std::vector<std::string>> active_swaps() {
  const Expected<std::string> text = read_kernel_file("/proc/swaps");
  if (!text) return text.error();
  return parse_swaps(*text);
}

}  // namespace comex::bench
