#include "bench/prefetch/paged_program.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/command_line.h"

namespace comex::bench {

namespace {

constexpr const char* kLoadProgram = "comex-prefetch-load";

class LoadProgram : public PagedProgram {
 public:
  LoadProgram(std::string_view name, std::uint64_t bytes) : name_(name), bytes_(bytes) {}
  [[nodiscard]] std::string_view name() const override { return name_; }
  Expected<Outcome> run(PagingSystem& system) override {
    const Expected<ProgramResult> result = system.run(
        {beside_this_program(kLoadProgram), "--workload", std::string(name_), "--set", std::to_string(bytes_)});
    return result ? parse_load_outcome(*result) : result.error();
  }

 private:
  std::string_view name_;
  std::uint64_t bytes_;
};

class CommandProgram : public PagedProgram {
 public:
  CommandProgram(std::string_view name, unsigned share, std::vector<std::string> command)
      : name_(name), share_(share), command_(std::move(command)) {}
  [[nodiscard]] std::string_view name() const override { return name_; }
  [[nodiscard]] unsigned share() const override { return share_; }
  Expected<Outcome> run(PagingSystem& system) override {
    Expected<ProgramResult> result = system.run(command_);
    if (!result) return result.error();
    return Outcome{result->seconds, result->peak_bytes, std::move(result->output)};
  }

 private:
  std::string_view name_;
  unsigned share_;
  std::vector<std::string> command_;
};

}  // namespace

Expected<PagedProgram::Outcome> parse_load_outcome(const ProgramResult& result) {
  const auto json = nlohmann::json::parse(result.output, nullptr, false);
  if (!json.is_object() || !json.value("seconds", nlohmann::json()).is_number() ||
      !json.value("result", nlohmann::json()).is_string()) {
    return Error{Errc::io, fmt::format("it printed '{}' instead of figures", result.output.substr(0, 60))};
  }
  return PagedProgram::Outcome{json["seconds"], result.peak_bytes, json["result"]};
}

std::unique_ptr<PagedProgram> make_load_program(std::string_view name, std::uint64_t bytes) {
  return std::make_unique<LoadProgram>(name, bytes);
}

std::unique_ptr<PagedProgram> make_command_program(std::string_view name, unsigned share,
                                                   std::vector<std::string> command) {
  return std::make_unique<CommandProgram>(name, share, std::move(command));
}

}  // namespace comex::bench
