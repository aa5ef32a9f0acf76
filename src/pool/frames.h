// Frames as those see them who keep pages in them: the pager and staging. The pool is one; a process whose pool is
// kept by another process has its own; tests have arrays.
//
// Thread safety: all functions from any thread. Fault path: all of them. They allocate nothing and may set errno.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "base/clock.h"
#include "base/expected.h"
#include "fabric/transfer.h"
#include "pool/location.h"

namespace comex {

inline constexpr std::uint32_t kMostCopies = 3;

// Where the copies of a page are.
struct Places {
  std::array<Location, kMostCopies> at{};
  std::uint32_t count = 0;
};

class Frames {
 public:
  virtual ~Frames() = default;

  // Up to `want` contiguous frames, of what is at hand.
  virtual std::optional<Run> take(std::uint32_t want) noexcept = 0;
  // Frames that were taken and never written.
  virtual void put_back(const Run& run) noexcept = 0;
  // Frames whose pages are not needed any more. REQUIRES: no transfer of them is under way or will be.
  virtual void give_back(const Run& run) noexcept = 0;
  [[nodiscard]] virtual std::uint32_t at_hand() const noexcept = 0;
  // Where the page that is kept in a frame is kept, all of its copies.
  [[nodiscard]] virtual Places places_of(Location home) const noexcept { return {{home}, 1}; }
  // Whether a read from there costs no more than its bytes: there is nothing to be gained by reading more at once.
  [[nodiscard]] virtual bool is_near(NodeId) const noexcept { return false; }

  // The transfer ends in Errc::disconnected: no link now, the frames may come back (wait_until_decided); in
  // Errc::fenced: they are lost.
  virtual void submit(NodeId node, Transfer& transfer) noexcept = 0;
  // Moves the node's transfers along without waiting.
  virtual void poll(NodeId node) noexcept = 0;
  // REQUIRES: submitted to this node.
  virtual Errc wait(NodeId node, Transfer& transfer) noexcept = 0;
  // ok when the node is back with its frames, fenced when they are lost, timeout when neither.
  virtual Errc wait_until_decided(NodeId node, const Deadline& deadline) noexcept = 0;
  // Waits until `count` frames are at hand. At the deadline: no_memory if every node that is up has said no,
  // disconnected if none is up, else timeout.
  virtual Errc wait_for_frames(std::uint32_t count, const Deadline& deadline) noexcept = 0;

  // Submit and wait: urgent. At most kMaxSegments segments and kMaxTransferPages pages.
  Errc read(NodeId node, std::span<const Segment> segments) noexcept { return move(node, Direction::read, segments); }
  Errc write(NodeId node, std::span<const Segment> segments) noexcept { return move(node, Direction::write, segments); }

 private:
  Errc move(NodeId node, Direction direction, std::span<const Segment> segments) noexcept {
    Transfer transfer(direction, segments);
    submit(node, transfer);
    return wait(node, transfer);
  }
};

}  // namespace comex
