#include "run/runtime/process.h"

#include <errno.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "run/runtime/gate_entry.h"

namespace comex::runtime {
namespace {

[[gnu::tls_model("initial-exec")]] thread_local ThreadState* current = nullptr;

constexpr std::uint64_t kStderr = 2;

// What descriptor 2 was when the program began. It may have become the program's most precious file since.
struct stat first_stderr;
// What libc says is the program's name may be memory of the program by then, and away: after a fork it would read as
// zeros, and leave a page of them behind.
char first_name[Record::kName];

bool look_at_stderr(struct stat& found) noexcept {
  return comex_gate_call(SYS_fstat, kStderr, reinterpret_cast<std::uint64_t>(&found), 0, 0, 0, 0) == 0;
}

// A line, in one piece.
class Line {
 public:
  Line& add(std::string_view text) noexcept {
    const std::size_t count = std::min(text.size(), sizeof text_ - size_);
    std::memcpy(text_ + size_, text.data(), count);
    size_ += count;
    return *this;
  }
  Line& add(std::uint64_t number) noexcept {
    char digits[20];
    std::size_t at = sizeof digits;
    do {
      digits[--at] = static_cast<char>('0' + number % 10);
    } while ((number /= 10) > 0);
    return add(std::string_view(digits + at, sizeof digits - at));
  }
  [[nodiscard]] std::string_view view() const noexcept { return {text_, size_}; }

 private:
  char text_[512];
  std::size_t size_ = 0;
};

[[noreturn]] void leave() noexcept {
  constexpr std::uint64_t kExitStopped = 125;
  for (;;) comex_gate_call(SYS_exit_group, kExitStopped, 0, 0, 0, 0, 0);
}

void say(const Line& what) noexcept {
  struct stat now {};
  if (!look_at_stderr(now) || now.st_dev != first_stderr.st_dev || now.st_ino != first_stderr.st_ino) return;
  Line line;
  line.add("comex: ").add(what.view()).add("\n");
  const std::string_view text = line.view();
  comex_gate_call(SYS_write, kStderr, reinterpret_cast<std::uint64_t>(text.data()), text.size(), 0, 0, 0);
}

[[noreturn]] void stop(Line& why) noexcept {
  say(why.add("; the program is stopped"));
  leave();
}

}  // namespace

constinit Process process;

ThreadState* this_thread() noexcept {
  ThreadState* const standing =
      process.threads != nullptr ? process.threads->standing_on(__builtin_frame_address(0)) : nullptr;
  return standing != nullptr ? standing : current;
}

void set_this_thread(ThreadState* state) noexcept {
  current = state;
}

void tell_left_alone() noexcept {
  say(Line()
          .add("all memory of process ")
          .add(static_cast<std::uint64_t>(comex_gate_call(SYS_getpid, 0, 0, 0, 0, 0, 0)))
          .add(
              " stays here: io_uring, AIO or a driver may write to it, and this kernel (before 6.8) or a missing right "
              "(comex doctor) keeps comex from knowing where"));
}

void stop(const char* why) noexcept {
  stop(Line().add(why));
}

void stop_for_loss(NodeId node) noexcept {
  if (process.outpost->keeper_gone()) stop_without_keeper();
  if (node == keeper_wire::kDisk) {
    stop(Line()
             .add("the disk of ")
             .add(process.outpost->name_of(node))
             .add(" cannot be read, and has the only copy of ")
             .add(process.pager->pages_at(node))
             .add(" pages of this process"));
  }
  if (process.outpost->name_of(node).empty())
    stop("so many memory nodes are lost that a page cannot be made of others");
  stop(Line()
           .add("memory node ")
           .add(process.outpost->name_of(node))
           .add(" is lost, and with it the only copy of ")
           .add(process.pager->pages_at(node))
           .add(" pages of this process"));
}

void stop_for_wrong_page(Location where) noexcept {
  stop(Line()
           .add("a page that came back from ")
           .add(where.node == keeper_wire::kDisk ? "the disk of " : "memory node ")
           .add(process.outpost->name_of(where.node))
           .add(" (frame ")
           .add(where.frame.value)
           .add(") is not what was sent there, and there is no other copy"));
}

void tell_of_wrong_page(Location where) noexcept {
  constexpr std::uint32_t kMostTold = 10;  // the rest is counted
  if (process.room->wrong.fetch_add(1, std::memory_order_relaxed) >= kMostTold) return;
  say(Line()
          .add("a page that came back from ")
          .add(where.node == keeper_wire::kDisk ? "the disk of " : "memory node ")
          .add(process.outpost->name_of(where.node))
          .add(" (frame ")
          .add(where.frame.value)
          .add(") was not what was sent there"));
}

void stop_without_keeper() noexcept {
  // Every process of the program finds out; one line is enough.
  if (process.room->told.exchange(true, std::memory_order_relaxed)) leave();
  const std::string_view reason = process.outpost->farewell();
  stop(Line().add("the keeper of this program is gone").add(reason.empty() ? "" : ": ").add(reason));
}

void stop_at_hard_limit() noexcept {
  const std::uint64_t pages = process.room->budget.hard.load(std::memory_order_relaxed);
  stop(Line()
           .add("the pool is full, and the program needs more than --hard ")
           .add(pages >> (20 - kPageShift))
           .add("M here"));
}

void begin_record(Room::Owned* owned) noexcept {
  process.owned = owned;
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  if (first_name[0] == 0) std::strncpy(first_name, program_invocation_short_name, sizeof first_name - 1);
  owned->record.begin(first_name,
                      static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec));
  if (process.pager != nullptr) process.pager->count_in(owned->record.tallies[0].pager);
  if (process.outpost != nullptr) process.outpost->count_in(owned->record);
  if (first_stderr.st_ino == 0) (void)look_at_stderr(first_stderr);
}

const char* name_of_program() noexcept {
  return first_name;
}

}  // namespace comex::runtime
