#include "bench/host_load.h"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <string>
#include <thread>

namespace comex::bench {

namespace {

struct Ticks {
  std::uint64_t all = 0;
  std::uint64_t idle = 0;
};

// The first line of /proc/stat: user nice system idle iowait irq softirq steal, since boot.
Ticks read_ticks() {
  constexpr int kFields = 8;
  constexpr int kIdle = 3;
  constexpr int kIoWait = 4;
  std::ifstream file("/proc/stat");
  std::string label;
  file >> label;
  Ticks ticks;
  for (int i = 0; i < kFields; ++i) {
    std::uint64_t value = 0;
    file >> value;
    ticks.all += value;
    if (i == kIdle || i == kIoWait) ticks.idle += value;
  }
  return ticks;
}

}  // namespace

double host_load(Millis time) {
  const Ticks before = read_ticks();
  std::this_thread::sleep_for(time);
  const Ticks after = read_ticks();
  if (after.all <= before.all) return 0;
  const double idle = static_cast<double>(after.idle - before.idle) / static_cast<double>(after.all - before.all);
  return std::clamp(1 - idle, 0.0, 1.0);
}

}  // namespace comex::bench
