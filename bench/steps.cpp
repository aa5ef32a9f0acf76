#include "bench/steps.h"

#include <fmt/format.h>

namespace comex::bench {

void Steps::stage(std::string_view what) {
  if (output_.terminal) {
    redraw(what);
  } else {
    output_.write(fmt::format("comex bench: {}\n", what));
  }
}

void Steps::step(std::string_view what) {
  ++done_;
  if (output_.terminal) redraw(fmt::format("{:3} %  {}", total_ > 0 ? (done_ - 1) * 100 / total_ : 0, what));
}

void Steps::clear() {
  if (line_open_) output_.write("\r\x1b[K");
  line_open_ = false;
}

void Steps::redraw(std::string_view text) {
  // A line that wraps cannot be redrawn in place.
  output_.write(fmt::format("\r{}\x1b[K", text.substr(0, output_.columns - 1)));
  line_open_ = true;
}

}  // namespace comex::bench
