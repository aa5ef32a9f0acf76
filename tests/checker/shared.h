// Memory that all threads use at once.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "checker/checker.h"

namespace checker {

// Each thread owns every n-th word of every page: threads meet on the same page, but never on the same word.
class SharedArea {
 public:
  SharedArea(const Settings& settings, std::size_t pages);
  SharedArea(const SharedArea&) = delete;
  SharedArea& operator=(const SharedArea&) = delete;
  ~SharedArea();

  [[nodiscard]] std::size_t pages() const { return pages_; }
  [[nodiscard]] std::byte* address(std::size_t page) const;
  void write(std::size_t thread, std::size_t page, std::uint64_t stamp);
  void verify(std::size_t thread, std::size_t page) const;
  void verify_all(std::size_t thread) const;

 private:
  const Settings& settings_;
  std::size_t pages_;
  std::uint64_t* words_;
  std::vector<std::vector<std::uint64_t>> stamps_;  // by thread, by page; only that thread uses its own
};

// Counters that the handler of SIGALRM adds to, spread over many pages; none of the additions may get lost.
class AlarmArea {
 public:
  AlarmArea(const Settings& settings, std::size_t pages);
  AlarmArea(const AlarmArea&) = delete;
  AlarmArea& operator=(const AlarmArea&) = delete;
  ~AlarmArea();

  // Signals of the parent are not inherited; a child that wants some calls it too.
  static void start();
  void stop_and_verify();

 private:
  static void on_alarm(int signal);

  const Settings& settings_;
  std::size_t pages_;
  std::uint64_t* words_;
};

}  // namespace checker
