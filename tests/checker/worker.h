// One thread of the checker: does random things to mappings of its own, and looks whether they hold what they should.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <shared_mutex>
#include <vector>

#include "checker/checker.h"
#include "checker/echo.h"
#include "checker/plot.h"
#include "checker/shared.h"

namespace checker {

class Worker {
 public:
  // `gate`: whoever has it alone knows that every word of every thread is as written.
  Worker(const Settings& settings, std::size_t number, SharedArea& shared, std::shared_mutex& gate,
         std::vector<Worker*>& all);

  // Until `deadline` (steady clock, nanoseconds). Everything is verified at the end.
  void run(std::int64_t deadline);
  void verify_all();
  [[nodiscard]] std::size_t steps() const { return steps_; }

 private:
  using Operation = void (Worker::*)();
  struct Choice {
    const char* name;
    Operation operation;
    std::size_t weight;
  };
  struct Range {
    Plot* plot;
    std::size_t from, count;
    [[nodiscard]] std::byte* address() const { return plot->address(from); }
    [[nodiscard]] std::size_t bytes() const { return count * kPageSize; }
  };

  void step();
  void write();
  void verify();
  void use_shared();
  void advise();
  void discard();
  void free_lazily();
  void populate();
  void protect();
  void touch_forbidden();
  void map();
  void map_over();
  void unmap();
  void move();
  void move_part();
  void move_and_keep();
  void grow();
  void shrink();
  void copy_through_pipe();
  void fork_alone();

  void fork_among_resting();
  void start_child(bool all);
  [[noreturn]] void live_as_child(bool all);
  void await_child(bool block);
  Range some_range();
  std::size_t some_plot() { return random_.below(plots_.size()); }
  // mremap wants one mapping: what mprotect split becomes one again.
  void make_whole(Plot& plot);
  std::byte* map_pages(std::size_t pages, int protection);
  void must(bool good, const char* what);

  const Settings& settings_;
  std::size_t number_;
  SharedArea& shared_;
  std::shared_mutex& gate_;
  std::vector<Worker*>& all_;
  Random random_;
  std::size_t wanted_pages_;
  std::size_t mapped_pages_ = 0;
  std::vector<Plot> plots_;
  Echo echo_;
  pid_t child_ = 0;
  unsigned generation_ = 0;
  std::size_t steps_ = 0;
};

}  // namespace checker
