// Memory nodes of our own, for when the user names no pool: `comex serve` in processes of their own on this machine.
#pragma once

#include <string>
#include <vector>

#include "bench/child.h"
#include "fabric/url.h"

namespace comex::bench {

// A node that runs as long as this object lives.
struct OwnNode {
  Child process;
  Fd output;  // kept open: the node may have more to say
  Url tcp;
  Url shm;
};

class OwnNodes {
 public:
  // Starts `count` nodes of `memory` bytes each, numbered from 1. Their sockets, logs and secret are in `folder`.
  // REQUIRES: this program is the comex command.
  static Expected<OwnNodes> start(const std::string& folder, unsigned count, std::uint64_t memory);

  [[nodiscard]] const std::vector<OwnNode>& nodes() const { return nodes_; }
  // Until all their memory is free again, and renewed. After a client has gone a node is at that for a while, and takes
  // a core from whoever is measured then. No longer than a minute, and not at all for one that does not answer.
  void settle() const;
  // What clients on TCP must know.
  [[nodiscard]] const std::string& secret() const { return secret_; }
  // ... and the file it is in.
  static std::string secret_file(const std::string& folder) { return folder + "/secret"; }

 private:
  std::vector<OwnNode> nodes_;
  std::string secret_;
};

// A new secret, in a file that only we may read. A secret even on loopback: other users of this machine must not get
// in.
Expected<std::string> write_secret(const std::string& path);

// The URLs in the line a node prints when it is ready. Errc::io when it is not such a line.
struct ReadyLine {
  Url tcp;
  Url shm;
};
Expected<ReadyLine> parse_ready_line(const std::string& line);

}  // namespace comex::bench
