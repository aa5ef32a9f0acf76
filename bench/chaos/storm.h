// What befalls a cluster, and when: faults one after the other, drawn from a seed. The same seed gives the same storm.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/clock.h"

namespace comex::bench {

enum class Mishap : std::uint8_t {
  kill_node,     // kill -9; another begins at the same address
  stop_node,     // SIGSTOP for a while
  pull_wire,     // for a while
  jolt_wire,     // so shortly that messages are cut off in the middle and sent again
  slow_node,     // its wire is slow for a while
  fill_node,     // somebody takes all the memory it has left
  drain_node,    // it wants all its memory back, and changes its mind after a while
  kill_program,  // kill -9; another begins
};
inline constexpr std::array kMishaps{Mishap::kill_node, Mishap::stop_node, Mishap::pull_wire,  Mishap::jolt_wire,
                                     Mishap::slow_node, Mishap::fill_node, Mishap::drain_node, Mishap::kill_program};
std::string_view to_string(Mishap mishap);

struct Fault {
  Mishap what = Mishap::kill_node;
  unsigned node = 0;     // from 1 on
  unsigned program = 0;  // from 0 on
  Millis lasts{0};
  Millis after{0};  // all is well again
};

// `longest`: a node is silent for no longer.
std::vector<Fault> draw_storm(std::uint64_t seed, unsigned faults, unsigned nodes, unsigned programs, Millis longest);

}  // namespace comex::bench
