// No paging: the program runs as it is, with all the memory it wants. What the others are held against.
// Not thread-safe.
#pragma once

#include "bench/paging/system.h"

namespace comex::bench {

inline constexpr std::string_view kPagingNative = "native";

class NativeRun : public PagingSystem {
 public:
  explicit NativeRun(std::string log) : log_(std::move(log)) {}
  [[nodiscard]] std::string_view name() const override { return kPagingNative; }
  Expected<ProgramResult> run(const std::vector<std::string>& command) override {
    return measure_program(command, {.log = log_, .limit = limit_});
  }

 private:
  std::string log_;
};

}  // namespace comex::bench
