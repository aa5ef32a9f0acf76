#include "bench/prefetch/programs.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "bench/child.h"
#include "bench/measure.h"
#include "bench/paging/program.h"
#include "bench/prefetch/load.h"
#include "bench/prefetch/redis_program.h"

namespace comex::bench {

namespace {

constexpr std::string_view kRedisZipf = "redis-zipf";
constexpr double kQuarter = 0.25;
constexpr const char* kPython = "/usr/bin/python3";  // the one that Debian's numpy is for

std::uint64_t bytes_of(std::string_view load, const ProgramSizes& sizes) {
  for (const std::string_view judged : {"sequential", "stride10", "interleaved4", "random"}) {
    if (load == judged) return sizes.judged;
  }
  return load == "matrix" ? sizes.matrices : sizes.others;
}

// Whole numbers, so that the sum of the product is the same wherever it is computed.
std::unique_ptr<PagedProgram> make_numpy_product(unsigned side) {
  const std::string script = fmt::format(
      "import numpy\n"
      "random = numpy.random.default_rng(1)\n"
      "a, b = (random.integers(-8, 8, ({0}, {0})).astype(float) for i in range(2))\n"
      "c = a @ b\n"
      "x = random.integers(-8, 8, {0}).astype(float)\n"
      "assert (c @ x == a @ (b @ x)).all()\n"
      "print(int(c.sum()), int(numpy.abs(c).sum()))\n",
      side);
  return make_command_program(kNumpyProduct, kQuarter, {kPython, "-c", script});
}

std::unique_ptr<PagedProgram> make_gnu_sort(unsigned lines, const std::string& folder) {
  const std::string path = folder + "/lines";
  std::ofstream file(path);
  Random random(1);
  for (unsigned i = 0; i < lines; ++i) file << random.below(1U << 31) << " line " << i << '\n';
  file.close();
  // All of it in memory, as the buffer allows.
  const std::string line = fmt::format("LC_ALL=C sort -S 1G -o '{0}.sorted' '{0}' && cksum <'{0}.sorted'", path);
  return make_command_program(kGnuSort, kQuarter, {"sh", "-c", line});
}

bool has_numpy() {
  return run_program({kPython, "-c", "import numpy"}, {.log = "/dev/null"}).has_value();
}

}  // namespace

std::vector<std::string> prefetch_program_names() {
  std::vector<std::string> names(load_names().begin(), load_names().end());
  for (const std::string_view name : {kRedisZipf, kNumpyProduct, kGnuSort}) names.emplace_back(name);
  return names;
}

std::vector<std::unique_ptr<PagedProgram>> make_prefetch_programs(const ProgramSizes& sizes, const std::string& folder,
                                                                  const std::vector<std::string>& wanted,
                                                                  std::vector<Skipped>& skipped) {
  const auto is_wanted = [&](std::string_view name) {
    return wanted.empty() || std::find(wanted.begin(), wanted.end(), name) != wanted.end();
  };
  const auto has = [&](std::string_view name, bool there, const char* why) {
    if (!is_wanted(name)) return false;
    if (!there) skipped.push_back({std::string(name), why});
    return there;
  };
  std::vector<std::unique_ptr<PagedProgram>> all;
  for (const std::string_view load : load_names()) {
    if (is_wanted(load)) all.push_back(make_load_program(load, bytes_of(load, sizes)));
  }
  if (has(kRedisZipf, program_exists("redis-server"), "redis-server is not installed (apt install redis-server)")) {
    all.push_back(make_redis_program(sizes.others, folder));
  }
  if (is_wanted(kNumpyProduct) &&
      has(kNumpyProduct, has_numpy(), "numpy is not installed (apt install python3-numpy)")) {
    all.push_back(make_numpy_product(sizes.numpy_side));
  }
  if (has(kGnuSort, program_exists("sort"), "sort is not installed (apt install coreutils)")) {
    all.push_back(make_gnu_sort(sizes.sort_lines, folder));
  }
  return all;
}

}  // namespace comex::bench
