// A network of its own for a storm: a namespace for the programs, one for each memory node, and a bridge between them
// in yet another, so that the wire of a node can be pulled out or made slow. All of it goes with this object; what a
// killed run has left is removed by the next. Needs root, and `ip` and `tc` (iproute2). Not thread-safe.
#pragma once

#include <string>
#include <vector>

#include "base/expected.h"

namespace comex::bench {

class ChaosNetwork {
 public:
  // Errc::unsupported, and what is missing, where this cannot be had.
  static Expected<ChaosNetwork> create(unsigned nodes);
  ChaosNetwork(ChaosNetwork&& other) noexcept;
  ChaosNetwork& operator=(ChaosNetwork&&) = delete;
  ~ChaosNetwork();

  // What to put before a command that is to run where the programs are (0), or where the i-th node is.
  [[nodiscard]] std::vector<std::string> inside(unsigned place) const;
  // Of the i-th node, from 1 on.
  [[nodiscard]] static std::string address(unsigned node);

  // Of the i-th node's wire, in both directions.
  Expected<void> pull(unsigned node, bool out);
  Expected<void> slow_down(unsigned node, bool slow);

 private:
  explicit ChaosNetwork(unsigned nodes);
  Expected<void> build();
  [[nodiscard]] std::string space(const std::string& name) const { return prefix_ + name; }

  std::string prefix_;
  unsigned nodes_ = 0;  // 0: it is another's by now
};

}  // namespace comex::bench
