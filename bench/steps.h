// What a measurement is doing right now, on stderr: a line redrawn in place on a terminal, a line per stage elsewhere.
// Not thread-safe.
#pragma once

#include <cstddef>
#include <string_view>

#include "base/progress.h"

namespace comex::bench {

class Steps {
 public:
  explicit Steps(ProgressOutput output = ProgressOutput::standard_error()) : output_(std::move(output)) {}
  // Leaves no line behind.
  ~Steps() { clear(); }
  Steps(const Steps&) = delete;
  Steps& operator=(const Steps&) = delete;

  // `total` steps are to come; from now on each shows its number.
  void expect(std::size_t total) { total_ = total; }
  // A stage is worth a line in a log too.
  void stage(std::string_view what);
  void step(std::string_view what);
  void clear();

 private:
  void redraw(std::string_view text);

  ProgressOutput output_;
  std::size_t done_ = 0;
  std::size_t total_ = 0;
  bool line_open_ = false;
};

}  // namespace comex::bench
