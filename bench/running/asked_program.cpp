#include "bench/running/asked_program.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <charconv>

#include "base/clock.h"
#include "bench/interrupt.h"

namespace comex::bench {

namespace {

constexpr Millis kPatience{60'000};
constexpr Millis kLookEvery{100};  // for Ctrl-C

}  // namespace

Expected<double> AskedProgram::measure(Mode mode) {
  Instance& instance = instances_[static_cast<std::size_t>(mode)];
  if (instance.asked == 0) {
    auto started = start(mode);
    if (!started) return started.error();
    instance = *std::move(started);
  }
  if (::send(instance.line.get(), "\n", 1, MSG_NOSIGNAL) != 1)
    return Error{Errc::io, "it has ended: " + last_line(log())};
  const Expected<std::string> line = read_line(instance);
  if (!line) return line.error();
  if (++instance.asked == kTimes) instance = {};
  double seconds = 0;
  const auto [end, error] = std::from_chars(line->data(), line->data() + line->size(), seconds);
  if (error != std::errc() || seconds <= 0) return Error{Errc::io, fmt::format("it printed '{}'", *line)};
  return seconds * 1e3;
}

Expected<AskedProgram::Instance> AskedProgram::start(Mode mode) const {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) return system_error("cannot make a pipe");
  const Fd its_end(ends[1]);
  Instance instance;
  instance.line = Fd(ends[0]);
  auto child = Child::spawn(in_mode(mode, command_), log(), its_end.get(), -1, its_end.get());
  if (!child) return child.error();
  instance.child = *std::move(child);
  return instance;
}

Expected<std::string> AskedProgram::read_line(Instance& instance) const {
  const Deadline deadline(kPatience);
  for (std::string line; !deadline.passed();) {
    if (interrupted()) return interruption();
    pollfd ready{instance.line.get(), POLLIN, 0};
    if (::poll(&ready, 1, static_cast<int>(kLookEvery.count())) <= 0) continue;
    char each = 0;
    if (::read(instance.line.get(), &each, 1) != 1) return Error{Errc::io, "it has ended: " + last_line(log())};
    if (each == '\n') return line;
    line += each;
  }
  return Error{Errc::timeout, "it does not answer"};
}

}  // namespace comex::bench
