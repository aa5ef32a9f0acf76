// comex-paging-load: the program that `comex bench paging` runs on each system. Usable alone:
//
//   comex-paging-load --set 1G --threads 2 --pass sequential --pass random
//
// Prints one line of JSON. Ends with 0 when every page was right, 1 when one was not (stderr says which), 2 when the
// flags make no sense, 3 when the memory cannot be had.
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "bench/paging/load.h"
#include "bench/paging/load_number.h"
#include "bench/paging/load_page.h"

namespace {

using comex::bench::LoadOptions;
using comex::bench::Pattern;

constexpr int kExitWrong = 1;
constexpr int kExitBadUsage = 2;
constexpr int kExitNoMemory = 3;
constexpr const char* kUsage =
    "usage: comex-paging-load [--set BYTES[K|M|G]] [--threads N] [--seed N] [--corrupt PAGE] [--asked 1]\n"
    "                         --pass sequential|stride10|random|random-write ...\n";

bool read_flag(std::string_view flag, std::string_view value, LoadOptions& options) {
  if (flag == "--pass") {
    const std::optional<Pattern> pattern = comex::bench::parse_pattern(value);
    if (pattern) options.passes.push_back(*pattern);
    return pattern.has_value();
  }
  std::uint64_t number = 0;
  if (!comex::bench::read_number(value, number)) return false;
  if (flag == "--set") {
    options.bytes = number;
  } else if (flag == "--seed") {
    options.seed = number;
  } else if (flag == "--asked") {
    options.asked = number != 0;
  } else if (flag == "--corrupt") {
    options.corrupt = number;
  } else if (flag == "--threads" && number > 0 && number <= 1024) {
    options.threads = static_cast<unsigned>(number);
  } else {
    return false;
  }
  return true;
}

bool read_flags(int argc, char** argv, LoadOptions& options) {
  for (int i = 1; i < argc; i += 2) {
    if (i + 1 == argc || !read_flag(argv[i], argv[i + 1], options)) return false;
  }
  return !options.passes.empty() && options.bytes / comex::bench::kLoadPageBytes >= options.threads;
}

}  // namespace

int main(int argc, char** argv) {
  LoadOptions options;
  if (!read_flags(argc, argv, options)) {
    std::fputs(kUsage, stderr);
    return kExitBadUsage;
  }
  const auto result = comex::bench::run_load(options);
  if (!result) {
    std::fprintf(stderr, "comex-paging-load: cannot map the memory: %s\n", std::strerror(errno));
    return kExitNoMemory;
  }
  std::puts(to_json(options, *result).c_str());
  if (result->pages_wrong == 0) return 0;
  std::fprintf(stderr, "comex-paging-load: %llu pages wrong; %s\n",
               static_cast<unsigned long long>(result->pages_wrong), result->first_wrong.c_str());
  return kExitWrong;
}
