// Frames as those see them who keep pages in them: the pager and staging. The pool is one; a process whose pool is
// kept by another process has its own; tests have arrays.
//
// A frame that is taken names a page's home, which is what a page-table entry keeps. What is read and written are
// places: frames of nodes. For a pool they are the same; under `comex run` a home may have several places, which change
// while nodes come and go (run/chunk_map.h).
//
// Thread safety: all functions from any thread. Fault path: all of them. They allocate nothing and may set errno.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/clock.h"
#include "base/expected.h"
#include "fabric/transfer.h"
#include "pool/code.h"
#include "pool/location.h"

namespace comex {

inline constexpr std::uint32_t kMostCopies = 3;
inline constexpr std::uint32_t kMostPlaces = Code::kMostNodes;
static_assert(kMostCopies <= kMostPlaces);

// Where the copies of a page are, or what it can be had from.
struct Places {
  std::array<Location, kMostPlaces> at{};
  std::uint32_t count = 0;
};

class Frames {
 public:
  virtual ~Frames() = default;

  // Up to `want` contiguous frames, of what is at hand. Where pages are coded, whole columns: see code().
  virtual std::optional<Run> take(std::uint32_t want) noexcept = 0;
  // Frames that were taken and never written.
  virtual void put_back(const Run& run) noexcept = 0;
  // Frames whose pages are not needed any more. REQUIRES: no transfer of them is under way or will be.
  virtual void give_back(const Run& run) noexcept = 0;
  [[nodiscard]] virtual std::uint32_t at_hand() const noexcept = 0;

  // Where to read the page with this home now: of a node that answers, if any of its copies' does.
  [[nodiscard]] virtual Location place_of(Location home) const noexcept { return home; }
  // The same for a read that will be told of by saw_read(): now and then from another copy than usual, so that it is
  // known how fast that one is.
  [[nodiscard]] virtual Location place_to_measure(Location home) noexcept { return place_of(home); }
  // A read of so many pages from there took so long.
  virtual void saw_read(NodeId, std::uint32_t, Nanos) noexcept {}
  // ... and where to write it to, all of them. None: it cannot be written now; give the frame back and take another.
  [[nodiscard]] virtual Places places_of(Location home) const noexcept { return {{home}, 1}; }
  // ... and where it can be read now, all of them: for one who has found one of them wrong.
  [[nodiscard]] virtual Places readable_places(Location home) const noexcept { return places_of(home); }
  // What places_of() has at most.
  [[nodiscard]] virtual std::uint32_t copies() const noexcept { return 1; }
  // Pages may be coded, in columns of code().data frames that follow one another. A column is written once, all of it
  // with its parity, and frames of it are taken again only when all have been given back. What is taken and put back
  // are whole columns.
  [[nodiscard]] virtual Code code() const noexcept { return {}; }
  // Whether neighbours are on several nodes. Then each that place_of() names is one that answers.
  [[nodiscard]] virtual bool spreads() const noexcept { return code().coded(); }
  // Where the parity of the frame's column is to be written, in order: code().parity places, of which those that are
  // lost are kNowhere. To be asked after places_of().
  [[nodiscard]] virtual Places parity_of(Location) const noexcept { return {}; }
  // Whether pages are to be written elsewhere whose frame is_worn(): their column is mostly empty, and cannot be used
  // again while they are there.
  [[nodiscard]] virtual bool tidies() const noexcept { return false; }
  [[nodiscard]] virtual bool is_worn(Location) const noexcept { return false; }
  // To be called before the look at places_of(), and with what it returned when all writes there have ended.
  virtual std::uint32_t begin_writes() noexcept { return 0; }
  // A page is in all its places now. To be called before end_writes().
  virtual void wrote(Location) noexcept {}
  virtual void end_writes(std::uint32_t) noexcept {}
  // The same for reads, and the look at place_of() or readable_places(): what was read there may be elsewhere, and the
  // frames somebody else's, once they have ended. See Reading.
  virtual std::uint32_t begin_reads() noexcept { return 0; }
  virtual void end_reads(std::uint32_t) noexcept {}
  // After a read of the page failed: ok when it can be tried again, fenced when its bytes are lost, else timeout.
  virtual Errc wait_until_readable(Location home, const Deadline& deadline) noexcept {
    return wait_until_decided(home.node, deadline);
  }

  // Whether a read from there costs no more than its bytes: there is nothing to be gained by reading more at once.
  [[nodiscard]] virtual bool is_near(NodeId) const noexcept { return false; }
  // Whether who submits a read there waits until it is done, as with a disk, or a page that is made of others: nothing
  // is read there that nobody waits for.
  [[nodiscard]] virtual bool keeps_waiting(NodeId node) const noexcept { return node == kMade; }

  // Page-aligned memory, zeros, never given back, from and to which pages are moved with a copy less; nullptr: there is
  // no more of it, any other will do. In a forked child what was in it is zeros.
  virtual std::byte* transfer_memory(std::size_t) noexcept { return nullptr; }

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

// The time from the look at where a page is to the end of its read.
class Reading {
 public:
  explicit Reading(Frames& frames) noexcept : frames_(&frames), ticket_(frames.begin_reads()) {}
  ~Reading() { end(); }
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;

  void end() noexcept {
    if (frames_ != nullptr) frames_->end_reads(ticket_);
    frames_ = nullptr;
  }

 private:
  Frames* frames_;
  const std::uint32_t ticket_;
};

}  // namespace comex
