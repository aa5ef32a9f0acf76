#include "base/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/units.h"

namespace comex {
namespace {

void write_to_stderr(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
    if (written <= 0) return;  // nobody is looking; the job matters more than its picture
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace

ProgressOutput ProgressOutput::standard_error() {
  ProgressOutput output;
  output.write = write_to_stderr;
  output.terminal = ::isatty(STDERR_FILENO) == 1;
  winsize size{};
  if (output.terminal && ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    output.columns = size.ws_col;
  return output;
}

Progress::Progress(std::string label, std::uint64_t total, ProgressOutput output)
    : label_(std::move(label)),
      total_(total),
      output_(std::move(output)),
      started_(output_.now()),
      next_draw_((output_.terminal ? started_ : started_ + kLineEvery).time_since_epoch().count()),
      next_percent_(kPercentPerLine) {}

Progress::~Progress() {
  if (line_open_) output_.write("\n");
}

void Progress::advance(std::uint64_t bytes) {
  const std::uint64_t done = done_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  const auto now = output_.now();
  if (!due(now, done)) return;
  std::unique_lock lock(drawing_, std::try_to_lock);
  if (!lock || finished_ || !due(now, done)) return;
  const auto pause = output_.terminal ? kRedrawEvery : kLineEvery;
  next_draw_.store((now + pause).time_since_epoch().count(), std::memory_order_relaxed);
  next_percent_.store(percent(done) / kPercentPerLine * kPercentPerLine + kPercentPerLine, std::memory_order_relaxed);
  draw(now, done, false);
}

void Progress::finish() {
  const std::scoped_lock lock(drawing_);
  if (finished_) return;
  finished_ = true;
  draw(output_.now(), done_.load(std::memory_order_relaxed), true);
}

unsigned Progress::percent(std::uint64_t done) const {
  if (total_ == 0) return 100;
  // As a double: done * 100 overflows for the largest totals.
  const double share = static_cast<double>(std::min(done, total_)) / static_cast<double>(total_);
  return static_cast<unsigned>(share * 100);
}

bool Progress::due(Clock::time_point now, std::uint64_t done) const {
  if (now.time_since_epoch().count() < next_draw_.load(std::memory_order_relaxed)) return false;
  if (output_.terminal) return true;
  // The line for 100 % is finish()'s.
  const unsigned next = next_percent_.load(std::memory_order_relaxed);
  return next < 100 && percent(done) >= next;
}

void Progress::draw(Clock::time_point now, std::uint64_t done, bool last) {
  const auto elapsed = now - started_;
  const double seconds = std::chrono::duration<double>(elapsed).count();
  const double rate = seconds > 0 ? static_cast<double>(done) / seconds : 0;
  const std::uint64_t left = total_ - std::min(done, total_);

  std::string time = "time left unknown";
  if (last) {
    time = "took " + format_duration(std::chrono::duration_cast<Millis>(elapsed));
  } else if (rate > 0) {
    time = format_duration(Millis(static_cast<Millis::rep>(static_cast<double>(left) / rate * 1'000))) + " left";
  }
  const unsigned share = percent(done);
  const std::string amount = fmt::format("{} of {}", format_size(done), format_size(total_));
  const std::string speed = format_size(static_cast<std::uint64_t>(rate)) + "/s";

  if (!output_.terminal) {
    output_.write(fmt::format("{}: {} %, {}, {}, {}\n", label_, share, amount, speed, time));
    return;
  }
  std::string text = fmt::format("{:3} %  {}  {}  {}", share, amount, speed, time);
  const std::size_t taken = label_.size() + text.size() + 4;
  const std::size_t room = output_.columns > taken ? output_.columns - taken : 0;
  text = fmt::format("{}  {}{}", label_, bar(share, room), text);
  // A line that wraps cannot be redrawn in place.
  if (!last && output_.columns > 1 && text.size() >= output_.columns) text.resize(output_.columns - 1);
  output_.write(fmt::format("\r{}\x1b[K{}", text, last ? "\n" : ""));
  line_open_ = !last;
}

// "[####----]  ", or nothing where there is no room for a useful one.
std::string Progress::bar(unsigned percent, std::size_t room) const {
  constexpr std::size_t kFrame = 4, kShortest = 8, kLongest = 40;
  if (room < kFrame + kShortest) return {};
  const std::size_t cells = std::min(room - kFrame, kLongest);
  const std::size_t full = cells * percent / 100;
  return fmt::format("[{}{}]  ", std::string(full, '#'), std::string(cells - full, '-'));
}

}  // namespace comex
