// What is measured with less memory than it wants: a program that can be run on any paging system, and says how long
// its work took and what came out. Each kind is a small class behind this interface. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "bench/figures.h"
#include "bench/paging/system.h"

namespace comex::bench {

class PagedProgram {
 public:
  struct Outcome {
    double seconds = 0;
    std::uint64_t peak_bytes = 0;  // as the process had them; natively, what it wants
    std::string result;            // must be the same on every system
  };

  virtual ~PagedProgram() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;
  // Of the memory it wants, so many per cent are local where nothing else is said.
  [[nodiscard]] virtual unsigned share() const { return 50; }
  virtual Expected<Outcome> run(PagingSystem& system) = 0;
};

// The line that comex-prefetch-load prints.
Expected<PagedProgram::Outcome> parse_load_outcome(const ProgramResult& result);

// One of the works of comex-prefetch-load (load_names()), on `bytes` of memory.
std::unique_ptr<PagedProgram> make_load_program(std::string_view name, std::uint64_t bytes);

// An ordinary program: its seconds are those from its start to its end, its result is what it prints.
std::unique_ptr<PagedProgram> make_command_program(std::string_view name, unsigned share,
                                                   std::vector<std::string> command);

}  // namespace comex::bench
