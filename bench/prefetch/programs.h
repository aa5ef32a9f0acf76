// The programs that `comex bench prefetch` and `comex bench sensitivity` measure with. Adding one is a line here.
#pragma once

#include <string>
#include <vector>

#include "bench/figures.h"
#include "bench/prefetch/paged_program.h"

namespace comex::bench {

// Names that goals refer to; those of loads are in load_names().
inline constexpr std::string_view kNumpyProduct = "numpy-product";
inline constexpr std::string_view kGnuSort = "gnu-sort";

struct ProgramSizes {
  std::uint64_t walks = std::uint64_t{1} << 30;      // of the loads that visit pages and do little else
  std::uint64_t others = std::uint64_t{256} << 20;   // graphs, sorting, redis
  std::uint64_t matrices = std::uint64_t{48} << 20;  // their work grows faster than they do
  unsigned numpy_side = 1500;
  unsigned sort_lines = 800'000;
  unsigned entries = 400'000;  // of hashes, tables and texts

  static ProgramSizes quick() {
    constexpr std::uint64_t kLittle = std::uint64_t{40} << 20;
    return {kLittle, kLittle, kLittle, 700, 400'000, 100'000};
  }
};

// Ours, redis, and those of which goals are judged. What is not installed is skipped with a word. They work in
// `folder`, which must outlive them. `wanted`: only these, by name; empty: all.
std::vector<std::unique_ptr<PagedProgram>> make_prefetch_programs(const ProgramSizes& sizes, const std::string& folder,
                                                                  const std::vector<std::string>& wanted,
                                                                  std::vector<Skipped>& skipped);

// Their names.
std::vector<std::string> prefetch_program_names();

// Programs that people have, and some of ours: as above.
std::vector<std::unique_ptr<PagedProgram>> make_sensitivity_programs(const ProgramSizes& sizes,
                                                                     const std::string& folder,
                                                                     const std::vector<std::string>& wanted,
                                                                     std::vector<Skipped>& skipped);
std::vector<std::string> sensitivity_program_names();

}  // namespace comex::bench
