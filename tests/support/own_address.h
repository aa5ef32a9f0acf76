// A loopback address of this process's own. Tests run beside each other, and a port that a node of one has given up, as
// it was stopped, would soon be a node's of another: who comes back to it would find a stranger there.
#pragma once

#include <unistd.h>

#include <string>

namespace comex::test {

inline std::string own_address() {
  const auto number = static_cast<unsigned>(::getpid());
  const auto part = [](unsigned value) { return "." + std::to_string(value); };
  return "127" + part(64 + number / (254 * 256) % 128) + part(number / 254 % 256) + part(1 + number % 254);
}
// Any port of it.
inline std::string own_listen() {
  return own_address() + ":0";
}

}  // namespace comex::test
