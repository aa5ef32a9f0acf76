// Which node a process's pages go to.
//
//   preferred     hash(NID of this host, PID): all pages of a process at one node, processes spread over the nodes
//   alternative   when the preferred says no: hash(NID of the preferred node, PID), as in the COMEX paper (3.3.4)
//   the rest      when that says no too: two drawn at random, and of them the one with more free memory (the power of
//                 two choices: nearly as even as asking everybody, without the herd running to the emptiest)
//
// Nodes that are set aside are skipped. A node is named by its position in the configuration: it is known before the
// node is reached, and stays when the node restarts. The NID of the preferred node is that position too.
//
// Thread safety: none (choose() draws numbers); the pool guards it. Not for the fault path.
// Deterministic: the same arguments and calls give the same answers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "wire/types.h"

namespace comex {

class Placement {
 public:
  struct Candidate {
    bool usable = false;  // up, and has not said no
    std::uint32_t free_frames = 0;
  };

  // REQUIRES: nodes > 0.
  Placement(NodeId host, std::uint32_t pid, std::size_t nodes, std::uint64_t seed);

  [[nodiscard]] std::size_t preferred() const { return preferred_; }
  // Another than preferred(), unless there is only one.
  [[nodiscard]] std::size_t alternative() const { return alternative_; }

  // The node to use, given how all of them are. Nothing if none is usable. REQUIRES: one candidate per node.
  std::optional<std::size_t> choose(std::span<const Candidate> candidates);

 private:
  std::optional<std::size_t> two_choices(std::span<const Candidate> candidates);
  std::size_t draw(std::size_t below);

  std::size_t preferred_;
  std::size_t alternative_;
  std::uint64_t random_;
};

}  // namespace comex
