// One connection, as a loop sees it: something that moves along without ever waiting.
//
// Thread safety: a peer belongs to one loop at a time and is used by that loop's thread only.
#pragma once

#include <memory>
#include <optional>

#include "base/clock.h"

namespace comex {

class Peer {
 public:
  enum class Want {
    read,       // call step() when more has arrived
    write,      // call step() when more can be sent
    again,      // call step() when others have had their turn
    close,      // over: the peer left, broke the protocol, or was refused
    hand_over,  // is something else from now on: see ControlPeer::become
  };

  virtual ~Peer() = default;
  // Receives, serves and sends as much as it can at once, but not for ever.
  virtual Want step() noexcept = 0;
  [[nodiscard]] virtual int fd() const noexcept = 0;
  // True if it must be closed: a handshake or a message takes too long, or its client was fenced.
  [[nodiscard]] virtual bool overdue(Clock::time_point now) const noexcept = 0;
  // When it came, if it has not proved itself yet and came in by that kind of socket (local: the Unix one).
  [[nodiscard]] virtual std::optional<Clock::time_point> greeting_since(bool /*local*/) const noexcept {
    return std::nullopt;
  }
};

}  // namespace comex
