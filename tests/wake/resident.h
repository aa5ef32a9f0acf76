// How much of a program's own memory is in RAM.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

inline std::size_t resident_bytes() {
  std::FILE* const status = std::fopen("/proc/self/status", "re");
  char line[256];
  std::size_t resident = 0;
  while (status != nullptr && std::fgets(line, sizeof line, status) != nullptr) {
    if (std::strncmp(line, "RssAnon:", 8) == 0) resident = std::strtoull(line + 8, nullptr, 10) << 10;
  }
  if (status != nullptr) std::fclose(status);
  return resident;
}

// Whether that is no more than so much, or comes to be: on a busy machine memory is touched faster than it leaves.
inline bool is_within(std::size_t bytes) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (resident_bytes() > bytes) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return true;
}
