// A program that does a little work each time it is asked, in tens of milliseconds, and says how long that took. One of
// each mode is there at a time, so that the modes take turns faster than the machine changes its pace: only so is a
// hundredth to be seen.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "base/fd.h"
#include "bench/child.h"
#include "bench/running/workload.h"

namespace comex::bench {

class AskedProgram : public Workload {
 public:
  // `command` reads a line, works, and prints the seconds of that on a line; again and again, kTimes times or more.
  // After so many it is ended, and another begun: where its memory lies makes a difference of 4 %, and only many of
  // them show less than that.
  static constexpr unsigned kTimes = 15;
  AskedProgram(std::string_view name, std::vector<std::string> command, const std::string& folder)
      : name_(name), command_(std::move(command)), folder_(folder) {}
  [[nodiscard]] std::string_view name() const override { return name_; }
  [[nodiscard]] std::string_view unit() const override { return "ms"; }
  [[nodiscard]] unsigned turns() const override { return 8 * kTimes; }
  Expected<double> measure(Mode mode) override;

 private:
  struct Instance {
    Child child;
    Fd line;  // to its input, and from its output
    unsigned asked = 0;
  };
  Expected<Instance> start(Mode mode) const;
  Expected<std::string> read_line(Instance& instance) const;
  [[nodiscard]] std::string log() const { return folder_ + "/run.log"; }

  std::string_view name_;
  std::vector<std::string> command_;
  const std::string& folder_;
  std::array<Instance, kModes.size()> instances_;
};

}  // namespace comex::bench
