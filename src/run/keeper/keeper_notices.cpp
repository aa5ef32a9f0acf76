#include "run/keeper/keeper_notices.h"

#include <fmt/format.h>

#include <cstdio>
#include <utility>

#include "base/units.h"
#include "pool/code_text.h"

namespace comex {
namespace {

constexpr Millis kQuiet{60'000};
constexpr Millis kSilence{3'000};

constexpr Millis kPassing{200};  // what is over by then need not be told of

// A node that is up, if there is one: copies go to others.
std::vector<NodeId> one_up(const Pool& pool) {
  for (const MemberStatus& node : pool.status()) {
    if (node.state == MemberState::up) return {node.node};
  }
  return {};
}

std::string size(std::uint64_t pages) {
  return format_size(pages << kPageShift);
}

}  // namespace

std::string sizes_of(const Pool& pool) {
  std::string nodes;
  for (const MemberStatus& node : pool.status()) {
    nodes += fmt::format("{}{} of {}", nodes.empty() ? "" : ", ", size(node.info.frames), node.url);
  }
  return nodes;
}

void Notices::look(const Budget& budget, std::uint64_t local, const KeeperStatus& status, Pool& pool) {
  const std::uint64_t now = budget.local.load(std::memory_order_relaxed);
  const std::uint64_t limit = budget.limit.load(std::memory_order_relaxed);
  if (!beyond_ && status.refused > 0 && now > limit && Clock::now() >= quiet_until_) {
    beyond_ = true;
    const bool away = pool.wait_for_frames(1, Deadline(Millis(0))) == Errc::disconnected;
    fmt::print(stderr,
               "comex: {} ({}): the program keeps its pages here beyond --local {}, and is stopped at --hard {}; {}\n",
               away ? "no memory node can be reached" : "the pool is full", sizes_of(pool), format_size(local),
               size(budget.hard.load(std::memory_order_relaxed)),
               away ? "start `comex serve` there again" : "end another client of it, or add a memory node");
  } else if (beyond_ && now <= limit) {
    beyond_ = false;
    quiet_until_ = Clock::now() + kQuiet;
    fmt::print(stderr, "comex: the program is within --local {} again\n", format_size(local));
  }
}

void Notices::look_at_nodes(const Pool& pool, bool backup) {
  for (const MemberStatus& node : pool.status()) {
    const bool answers = node.state == MemberState::up;
    if (answers || node.in_use == 0) {
      const auto found = silent_.find(node.node.value);
      if (answers && found != silent_.end() && found->second.said) {
        fmt::print(stderr, "comex: memory node {} answers again\n", node.url);
      }
      silent_.erase(node.node.value);
      continue;
    }
    Silence& silence = silent_.try_emplace(node.node.value, Silence{Clock::now()}).first->second;
    if (silence.said || Clock::now() < silence.since + kSilence) continue;
    silence.said = true;
    const char* what = "the program's pages there are read from other nodes";
    if (pool.config().copies == 1) what = "the program waits when it needs one of its pages there";
    if (pool.config().copies == 1 && backup) {
      what = "the program's pages there are read from the disk, and it waits when it needs one that is not there yet";
    }
    fmt::print(stderr, "comex: memory node {} does not answer: {} (up to {})\n", node.url, what, size(node.in_use));
  }
}

void Notices::look_at_copies(const KeeperStatus& status, const Pool& pool, Code code) {
  const auto wanted = [&] {
    return code.coded() ? fmt::format("pages than --code {}", to_text(code))
                        : fmt::format("copies than --replicas {}", pool.config().copies);
  };
  if (!thin_ && status.thin > 0) {
    if (thin_since_ == Clock::time_point{}) thin_since_ = Clock::now();
    if (Clock::now() < thin_since_ + kPassing) return;
    thin_ = true;
    mended_before_ = status.mended;
    fmt::print(stderr, "comex: up to {} of the program have fewer {}; they are made again {}\n", size(status.thin),
               wanted(), pool.apart(one_up(pool)) == Errc::ok ? "now" : "when there is another memory node with room");
  } else if (status.thin == 0) {
    if (thin_) {
      fmt::print(stderr, "comex: all pages have {} again ({} were {})\n",
                 code.coded() ? "their parity" : fmt::format("{} copies", pool.config().copies),
                 size(status.mended - mended_before_), code.coded() ? "made" : "copied");
    }
    thin_ = false;
    thin_since_ = {};
  }
}

void Notices::look_at_moves(const KeeperStatus& status) {
  if (!status.stuck) {
    stuck_ = false;
    stuck_since_ = {};
  } else if (stuck_since_ == Clock::time_point{}) {
    stuck_since_ = Clock::now();
  } else if (!stuck_ && Clock::now() >= stuck_since_ + kSilence) {
    stuck_ = true;
    fmt::print(stderr,
               "comex: a memory node wants its memory back, and no other has room: up to {} of the program stay there; "
               "add a memory node\n",
               size(status.to_move));
  }
  if (status.to_move > 0 || status.moved == moved_before_ || Clock::now() < moved_quiet_) return;
  moved_quiet_ = Clock::now() + kQuiet;
  fmt::print(stderr, "comex: {} of the program were moved away from memory nodes that want their memory back\n",
             size(status.moved - moved_before_));
  moved_before_ = status.moved;
}

void Notices::look_at_disk(const std::string& folder, const KeeperStatus& status, const Pool& pool) {
  if (status.on_disk > 0 && !std::exchange(on_disk_, true)) {
    fmt::print(stderr, "comex: {} ({}): the program's pages go to the disk in {}, up to {}\n",
               pool.apart({}) == Errc::disconnected ? "no memory node can be reached" : "the pool is full",
               sizes_of(pool), folder, size(status.backup.limit));
  }
  if (!status.backup.trouble.empty() && !std::exchange(disk_trouble_, true)) {
    fmt::print(stderr, "comex: --backup {}: {}; nothing more is written there than the {} that it has\n", folder,
               status.backup.trouble, size(status.backup.used));
  }
}

void Notices::lost(const Loss& loss, Code code) {
  fmt::print(stderr,
             "comex: memory node {} is lost ({}), and with it up to {} pages ({}) and parity, which are made again of "
             "any {} other nodes\n",
             loss.url, loss.reason, loss.frames, size(loss.frames), code.data);
}

void Notices::lost(const Loss& loss, std::uint32_t copies, bool backup) {
  if (copies > 1) {
    fmt::print(stderr, "comex: memory node {} is lost ({}), and with it one of {} copies of up to {} pages ({})\n",
               loss.url, loss.reason, copies, loss.frames, size(loss.frames));
    return;
  }
  fmt::print(
      stderr,
      "comex: memory node {} is lost ({}), and with it up to {} pages ({}) of the program, which is stopped when "
      "it needs one of them{}\n",
      loss.url, loss.reason, loss.frames, size(loss.frames), backup ? " that is not on the disk" : "");
}

}  // namespace comex
