// A program in a storm: comex-checker under `comex run`, and what comex says of it. Not thread-safe.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/child.h"

namespace comex::bench {

class ChaosProgram {
 public:
  // Stopped: by comex, which has said why. Wrong: anything else, also if every word was right but a page came back that
  // was not what had been sent; no fault of a storm changes pages.
  enum class End { well, stopped, wrong };

  // `log` takes what it and comex say.
  static Expected<ChaosProgram> start(const std::vector<std::string>& command, std::string log);

  // Nothing while it runs.
  std::optional<End> ended();
  [[nodiscard]] std::string last_words() const { return last_line(log_); }
  // Whether all its pages have the copies they should, where they may stay, and all nodes answer, as its keeper tells.
  [[nodiscard]] bool whole() const;
  void kill();
  // comex has said so.
  [[nodiscard]] bool met_wrong_page() const;

 private:
  ChaosProgram(Child process, std::string log) : process_(std::move(process)), log_(std::move(log)) {}

  Child process_;
  std::string log_;
};

}  // namespace comex::bench
