// comex-prefetch-load: the program that `comex bench prefetch` runs on each system. Usable alone:
//
//   comex-prefetch-load --workload interleaved4 --set 1G
//
// Prints one line of JSON. Ends with 0 when every byte was right, 1 when one was not (stderr says which), 2 when the
// flags make no sense, 3 when the memory cannot be had.
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "bench/paging/load_number.h"
#include "bench/prefetch/load.h"

namespace {

using namespace comex::bench;

constexpr int kExitWrong = 1;
constexpr int kExitBadUsage = 2;
constexpr int kExitNoMemory = 3;

struct Flags {
  std::string_view workload;
  std::uint64_t bytes = std::uint64_t{1} << 30;
  std::uint64_t seed = 1;
  std::optional<std::uint64_t> corrupt;
};

bool read_flag(std::string_view flag, std::string_view value, Flags& flags) {
  if (flag == "--workload") {
    flags.workload = value;
    for (const std::string_view name : load_names()) {
      if (name == value) return true;
    }
    return false;
  }
  std::uint64_t number = 0;
  if (!read_number(value, number)) return false;
  if (flag == "--set") {
    flags.bytes = number;
  } else if (flag == "--seed") {
    flags.seed = number;
  } else if (flag == "--corrupt") {
    flags.corrupt = number;
  } else {
    return false;
  }
  return true;
}

bool read_flags(int argc, char** argv, Flags& flags) {
  for (int i = 1; i < argc; i += 2) {
    if (i + 1 == argc || !read_flag(argv[i], argv[i + 1], flags)) return false;
  }
  return !flags.workload.empty() && flags.bytes >= kLeastLoadBytes;
}

void explain() {
  std::fputs("usage: comex-prefetch-load [--set BYTES[K|M|G]] [--seed N] [--corrupt BYTE] --workload", stderr);
  const char* between = " ";
  for (const std::string_view name : load_names()) {
    std::fprintf(stderr, "%s%.*s", between, static_cast<int>(name.size()), name.data());
    between = "|";
  }
  std::fputs("\n", stderr);
}

}  // namespace

int main(int argc, char** argv) {
  Flags flags;
  if (!read_flags(argc, argv, flags)) {
    explain();
    return kExitBadUsage;
  }
  const std::unique_ptr<LoadWork> work = make_load_work(flags.workload, flags.bytes, flags.seed);
  if (work == nullptr) {
    std::fprintf(stderr, "comex-prefetch-load: cannot map the memory: %s\n", std::strerror(errno));
    return kExitNoMemory;
  }
  const LoadTimes times = run_load_work(*work, flags.corrupt);
  std::puts(to_json(flags.workload, times).c_str());
  if (times.wrong.empty()) return 0;
  std::fprintf(stderr, "comex-prefetch-load: %s\n", times.wrong.c_str());
  return kExitWrong;
}
