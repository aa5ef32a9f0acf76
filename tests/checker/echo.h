// Sends memory through pipes and back, so that the kernel reads from it and, later, writes to it while a thread waits.
#pragma once

#include <array>
#include <cstddef>
#include <thread>

#include "checker/checker.h"

namespace checker {

class Echo {
 public:
  static constexpr std::size_t kMost = 8 * kPageSize;  // less than a pipe holds: nobody waits for ever

  explicit Echo(const Settings& settings);
  Echo(const Echo&) = delete;
  Echo& operator=(const Echo&) = delete;
  ~Echo();

  // Copies through another thread, which takes its time: the caller waits in read().
  void copy(const std::byte* from, std::byte* to, std::size_t bytes, std::size_t piece);
  // In a forked child, which has no such thread.
  void copy_alone(const std::byte* from, std::byte* to, std::size_t bytes);

 private:
  void serve() const;
  void send(int descriptor, const std::byte* from, std::size_t bytes) const;
  void receive(int descriptor, std::byte* to, std::size_t bytes, std::size_t piece) const;

  const Settings& settings_;
  std::array<int, 2> there_{};
  std::array<int, 2> back_{};
  std::thread thread_;
};

}  // namespace checker
