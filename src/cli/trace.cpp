#include "cli/trace.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "cli/report.h"
#include "trace/drawing.h"
#include "trace/reader.h"
#include "trace/report.h"
#include "trace/summary.h"

namespace comex {
namespace {

struct TraceFlags {
  std::string file;
  std::string svg;
  std::string png;
  std::optional<std::uint32_t> process;
  std::optional<double> from;
  std::optional<double> to;
  bool json = false;
};

// All of it at once: somebody may be about to empty the file for the next run.
Expected<std::vector<std::byte>> read_file(const std::string& path) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat found {};
  if (!file || ::fstat(file.get(), &found) != 0) {
    return Error{Errc::invalid, fmt::format("cannot read {}: {}", path, std::strerror(errno))};
  }
  if (!S_ISREG(found.st_mode)) return Error{Errc::invalid, fmt::format("cannot read {}: it is not a file", path)};
  std::vector<std::byte> bytes(static_cast<std::size_t>(found.st_size));
  std::size_t size = 0;
  while (size < bytes.size()) {
    const ssize_t got = ::read(file.get(), bytes.data() + size, bytes.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Error{Errc::invalid, fmt::format("cannot read {}: {}", path, std::strerror(errno))};
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  bytes.resize(size);
  return bytes;
}

Expected<void> write_file(const std::string& path, const std::string& bytes) {
  const Fd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  for (std::size_t at = 0; file && at < bytes.size();) {
    const ssize_t put = ::write(file.get(), bytes.data() + at, bytes.size() - at);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return system_error("cannot write " + path);
    at += static_cast<std::size_t>(put);
  }
  if (file) return {};
  return Error{Errc::invalid, fmt::format("cannot write {}: {}", path, std::strerror(errno))};
}

Expected<std::uint64_t> nanos(double seconds, const char* flag) {
  constexpr double kMost = 1e9;
  if (std::isfinite(seconds) && seconds >= 0 && seconds < kMost) return static_cast<std::uint64_t>(seconds * 1e9);
  return Error{Errc::invalid, fmt::format("{} is in seconds from the start of the trace", flag)};
}

Expected<TraceFilter> filter_of(const TraceFlags& flags) {
  TraceFilter filter;
  filter.pid = flags.process;
  if (flags.from) {
    const auto from = nanos(*flags.from, "--from");
    if (!from) return from.error();
    filter.from = *from;
  }
  if (flags.to) {
    const auto to = nanos(*flags.to, "--to");
    if (!to) return to.error();
    filter.to = *to;
  }
  if (filter.from > filter.to) return Error{Errc::invalid, "--from is after --to"};
  return filter;
}

Expected<void> draw_to_files(const TraceFlags& flags, const TraceReader& reader, const TraceFilter& filter,
                             const TraceSummary& summary) {
  const auto chart = draw(reader, filter, summary);
  if (!chart) return chart.error();
  if (!flags.svg.empty()) {
    if (auto written = write_file(flags.svg, plot::to_svg(*chart)); !written) return written;
  }
  if (flags.png.empty()) return {};
  const auto png = plot::to_png(*chart);
  if (!png) return png.error();
  return write_file(flags.png, *png);
}

Expected<void> run(const TraceFlags& flags) {
  const auto filter = filter_of(flags);
  if (!filter) return filter.error();
  const auto bytes = read_file(flags.file);
  if (!bytes) return bytes.error();
  const auto about_file = [&](const Error& error) {
    return Error{error.code, fmt::format("cannot read {}: {}", flags.file, error.message)};
  };
  const auto reader = TraceReader::open(*bytes);
  if (!reader) return about_file(reader.error());
  const auto summary = summarise(*reader, *filter);
  if (!summary) return about_file(summary.error());
  if (flags.process && summary->processes.empty()) {
    return Error{Errc::invalid,
                 fmt::format("{} has no faults of a process {} in that time", flags.file, *flags.process)};
  }
  if (!flags.svg.empty() || !flags.png.empty()) {
    if (auto drawn = draw_to_files(flags, *reader, *filter, *summary); !drawn) return drawn;
  }
  fmt::print("{}", flags.json ? to_json(*summary) : to_text(*summary));
  return {};
}

}  // namespace

void add_trace(CLI::App& app, int& exit_code) {
  CLI::App& command = *app.add_subcommand("trace", "Show what `comex run --trace` has written");
  auto flags = std::make_shared<TraceFlags>();
  command.add_option("file", flags->file, "The trace")->required();
  command.add_flag("--json", flags->json, "Everything, for programs");
  command.add_option("--svg", flags->svg, "Draw it: pages over time, in the color of where they came from")
      ->type_name("FILE");
  command.add_option("--png", flags->png, "... the same as pixels")->type_name("FILE");
  command.add_option("--process", flags->process, "Only the faults of this process")->type_name("PID");
  command.add_option("--from", flags->from, "Only those from so many seconds after the start")->type_name("S");
  command.add_option("--to", flags->to, "... and up to so many")->type_name("S");
  command.callback([flags, &exit_code] {
    const auto done = run(*flags);
    exit_code = done ? 0 : fail(done.error());
  });
}

}  // namespace comex
