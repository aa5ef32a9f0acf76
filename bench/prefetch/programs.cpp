#include "bench/prefetch/programs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>

#include "bench/child.h"
#include "bench/measure.h"
#include "bench/paging/program.h"
#include "bench/prefetch/load.h"
#include "bench/prefetch/redis_program.h"

namespace comex::bench {

namespace {

constexpr std::string_view kRedisZipf = "redis-zipf";
constexpr std::string_view kSqlite = "sqlite";
constexpr std::string_view kXz = "xz";
constexpr std::string_view kPerl = "perl-hash";
constexpr std::string_view kGcc = "gcc";
constexpr std::array<std::string_view, 5> kSensitiveLoads{"zipf", "bfs", "pagerank", "matrix", "merge-sort"};
constexpr unsigned kQuarter = 25;                    // per cent
constexpr const char* kPython = "/usr/bin/python3";  // the one that Debian's numpy is for

std::uint64_t bytes_of(std::string_view load, const ProgramSizes& sizes) {
  for (const std::string_view walk : {"sequential", "stride10", "changing-stride", "interleaved4", "random", "zipf"}) {
    if (load == walk) return sizes.walks;
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

// A line for the shell. LC_ALL=C: the same order and letters everywhere.
std::unique_ptr<PagedProgram> make_line_program(std::string_view name, const std::string& line) {
  return make_command_program(name, kQuarter, {"sh", "-c", "export LC_ALL=C; " + line});
}

std::unique_ptr<PagedProgram> make_gnu_sort(unsigned lines, const std::string& folder) {
  const std::string path = folder + "/lines";
  std::ofstream file(path);
  Random random(1);
  for (unsigned i = 0; i < lines; ++i) file << random.below(1U << 31) << " line " << i << '\n';
  file.close();
  // All of it in memory, as the buffer allows.
  return make_line_program(kGnuSort, fmt::format("sort -S 1G -o '{0}.sorted' '{0}' && cksum <'{0}.sorted'", path));
}

std::unique_ptr<PagedProgram> make_sqlite(unsigned rows, const std::string& folder) {
  const std::string path = folder + "/sql";
  std::ofstream(path) << fmt::format(
      "PRAGMA cache_size = -1000000;\n"
      "CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT, size INTEGER, body BLOB);\n"
      "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {0})\n"
      "  INSERT INTO item SELECT i, 'name ' || (i * 7919 % {0}), i * 31 % 1000, zeroblob(i % 400) FROM n;\n"
      "CREATE INDEX by_name ON item(name);\n"
      "SELECT count(*), sum(size), min(name), max(name), sum(length(body)) FROM item;\n"
      "SELECT count(*) FROM item a JOIN item b ON b.name = 'name ' || a.id WHERE a.size < 300;\n",
      rows);
  return make_line_program(kSqlite, fmt::format("sqlite3 :memory: <'{}'", path));
}

std::unique_ptr<PagedProgram> make_xz(unsigned lines, const std::string& folder) {
  const std::string path = folder + "/text";
  std::ofstream file(path);
  Random random(1);
  for (unsigned i = 0; i < lines; ++i) file << i << " words of a text " << random.below(1000) << '\n';
  file.close();
  return make_line_program(kXz, fmt::format("xz -6 -T1 -k -f '{0}' && cksum <'{0}.xz'", path));
}

std::unique_ptr<PagedProgram> make_perl(unsigned entries) {
  return make_command_program(
      kPerl, kQuarter,
      {"perl", "-e",
       fmt::format("my %h; $h{{\"key $_\"}} = \"value $_ \" x 20 for 1 .. {0};"
                   "$h{{\"key $_\"}} .= 'more' for 1 .. {0};"
                   "my $n = 0; $n += length $h{{\"key \" . ($_ * 7919 % {0} + 1)}} for 1 .. {0};"
                   "print scalar(keys %h), \" $n\\n\";",
                   entries)});
}

std::unique_ptr<PagedProgram> make_gcc(const std::string& folder) {
  const std::string path = folder + "/program.cpp";
  std::ofstream(path)
      << "#include <algorithm>\n#include <iostream>\n#include <map>\n#include <regex>\n#include <string>\n"
         "#include <unordered_map>\n#include <vector>\n"
         "int main() {\n  std::map<std::string, std::vector<int>> words;\n"
         "  const std::regex word(\"[a-z]+\");\n  const std::string text = \"the quick brown fox\";\n"
         "  int at = 0;\n  for (std::sregex_iterator i(text.begin(), text.end(), word), end; i != end; ++i) {\n"
         "    words[i->str()].push_back(at++);\n  }\n"
         "  for (const auto& [name, places] : words) std::cout << name << places.size();\n}\n";
  return make_line_program(kGcc, fmt::format("g++ -O2 -c -o '{0}.o' '{0}' && cksum <'{0}.o'", path));
}

// Those that are wanted and can be had.
class Catalogue {
 public:
  Catalogue(const std::vector<std::string>& wanted, std::vector<Skipped>& skipped)
      : wanted_(wanted), skipped_(skipped) {}

  // `needs` is a program, which is in the package of that name.
  template <typename Make>
  void add(std::string_view name, const char* needs, const char* package, const Make& make) {
    if (!wanted_.empty() && std::find(wanted_.begin(), wanted_.end(), name) == wanted_.end()) return;
    if (needs != nullptr && !program_exists(needs)) {
      skipped_.push_back({std::string(name), fmt::format("{} is not installed (apt install {})", needs, package)});
    } else if (std::unique_ptr<PagedProgram> made = make()) {
      all_.push_back(std::move(made));
    }
  }
  void add_numpy(unsigned side) {
    add(kNumpyProduct, nullptr, nullptr, [&]() -> std::unique_ptr<PagedProgram> {
      if (run_program({kPython, "-c", "import numpy"}, {.log = "/dev/null"})) return make_numpy_product(side);
      skipped_.push_back({std::string(kNumpyProduct), "numpy is not installed (apt install python3-numpy)"});
      return nullptr;
    });
  }
  std::vector<std::unique_ptr<PagedProgram>> all() { return std::move(all_); }

 private:
  const std::vector<std::string>& wanted_;
  std::vector<Skipped>& skipped_;
  std::vector<std::unique_ptr<PagedProgram>> all_;
};

}  // namespace

std::vector<std::string> prefetch_program_names() {
  std::vector<std::string> names(load_names().begin(), load_names().end());
  for (const std::string_view name : {kRedisZipf, kNumpyProduct, kGnuSort}) names.emplace_back(name);
  return names;
}

std::vector<std::unique_ptr<PagedProgram>> make_prefetch_programs(const ProgramSizes& sizes, const std::string& folder,
                                                                  const std::vector<std::string>& wanted,
                                                                  std::vector<Skipped>& skipped) {
  Catalogue catalogue(wanted, skipped);
  for (const std::string_view load : load_names()) {
    catalogue.add(load, nullptr, nullptr, [&] { return make_load_program(load, bytes_of(load, sizes)); });
  }
  catalogue.add(kRedisZipf, "redis-server", "redis-server", [&] { return make_redis_program(sizes.others, folder); });
  catalogue.add_numpy(sizes.numpy_side);
  catalogue.add(kGnuSort, "sort", "coreutils", [&] { return make_gnu_sort(sizes.sort_lines, folder); });
  return catalogue.all();
}

std::vector<std::string> sensitivity_program_names() {
  std::vector<std::string> names(kSensitiveLoads.begin(), kSensitiveLoads.end());
  for (const std::string_view name : {kRedisZipf, kNumpyProduct, kGnuSort, kSqlite, kXz, kPerl, kGcc}) {
    names.emplace_back(name);
  }
  return names;
}

std::vector<std::unique_ptr<PagedProgram>> make_sensitivity_programs(const ProgramSizes& sizes,
                                                                     const std::string& folder,
                                                                     const std::vector<std::string>& wanted,
                                                                     std::vector<Skipped>& skipped) {
  Catalogue catalogue(wanted, skipped);
  for (const std::string_view load : kSensitiveLoads) {
    catalogue.add(load, nullptr, nullptr, [&] { return make_load_program(load, bytes_of(load, sizes)); });
  }
  catalogue.add(kRedisZipf, "redis-server", "redis-server", [&] { return make_redis_program(sizes.others, folder); });
  catalogue.add_numpy(sizes.numpy_side);
  catalogue.add(kGnuSort, "sort", "coreutils", [&] { return make_gnu_sort(sizes.sort_lines, folder); });
  catalogue.add(kSqlite, "sqlite3", "sqlite3", [&] { return make_sqlite(sizes.entries, folder); });
  catalogue.add(kXz, "xz", "xz-utils", [&] { return make_xz(sizes.entries, folder); });
  catalogue.add(kPerl, "perl", "perl", [&] { return make_perl(sizes.entries); });
  catalogue.add(kGcc, "g++", "g++", [&] { return make_gcc(folder); });
  return catalogue.all();
}

}  // namespace comex::bench
