// The processes of a program, as their accounts have them (run/room.h): notices those that have ended, takes what they
// had off the budget, and adds up what they counted.
//
// A process that has ended is known by its pidfd. The number in an account may belong to another process by the time
// that is looked at: one that began after the account was opened, which its start time tells.
//
// Thread safety: none; belongs to the keeper's main loop.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "run/room.h"

namespace comex {

// What was counted, as plain numbers.
struct Figures {
  struct Link {
    std::uint64_t reads = 0;
    std::uint64_t writes = 0;
    std::uint64_t pages_read = 0;
    std::uint64_t pages_written = 0;
  };
  std::array<std::uint64_t, 9> faults{};  // by Served
  std::uint64_t pages_in = 0;
  std::uint64_t pages_along = 0;
  std::uint64_t along_used = 0;
  std::uint64_t pages_around = 0;
  std::uint64_t around_used = 0;
  std::array<std::uint64_t, PagerStats::kLeads> leads{};
  std::uint64_t known = 0;
  std::uint64_t unknown = 0;
  std::uint64_t evicted = 0;
  std::uint64_t dropped = 0;
  std::uint64_t evictions_by_faults = 0;
  std::uint64_t waits = 0;
  std::uint64_t wrong = 0;
  std::uint64_t mended = 0;
  std::uint64_t fault_ns = 0;
  std::uint64_t calls = 0;
  std::uint64_t direct_calls = 0;
  std::uint64_t peak = 0;               // pages
  std::map<std::uint16_t, Link> links;  // by node id

  static Figures of(const Room::Owned& owned);
  void add(const Figures& other);  // but for the peak
};

struct ProcessFigures {
  std::uint32_t pid = 0;
  std::string name;
  Figures figures;
};

class Census {
 public:
  // REQUIRES: the room outlives this. `on_end`, if any, is told the account of a process that has ended, while it is
  // still open.
  explicit Census(Room& room, std::function<void(std::size_t account)> on_end = nullptr)
      : room_(room), on_end_(std::move(on_end)) {}

  void look();
  [[nodiscard]] std::size_t living() const { return watched_.size(); }

  // Of processes that have ended, and all of them together. Beyond so many, only the sum is kept.
  static constexpr std::size_t kMostKept = 10'000;
  [[nodiscard]] const std::vector<ProcessFigures>& ended() const { return ended_; }
  [[nodiscard]] std::uint64_t ended_count() const { return ended_count_; }
  [[nodiscard]] const Figures& total() const { return total_; }

 private:
  struct Watched {
    std::uint32_t pid = 0;
    Fd pidfd;
  };
  void begin(std::size_t index, std::uint32_t pid);
  // Whether the account is of the process that has this number now.
  [[nodiscard]] bool is_of(std::size_t index, std::uint32_t pid) const;
  void end(std::size_t index);

  Room& room_;
  const std::function<void(std::size_t)> on_end_;
  std::unordered_map<std::size_t, Watched> watched_;  // by account
  std::vector<ProcessFigures> ended_;
  std::uint64_t ended_count_ = 0;
  Figures total_;
};

// When a process began, in ns of CLOCK_BOOTTIME, to within a tick of the kernel's clock; 0 if it is not there.
std::uint64_t start_of_process(std::uint32_t pid);

// Whether this very process has opened an account. Only who has the room can: it had the right when it began, whoever
// it runs as now.
bool has_account(Room& room, std::uint32_t pid);

}  // namespace comex
