// A connection that exists in memory only: one end is a Stream for the code under test, the other is the harness.
//
//   harness --send()-->  MemoryLine  --read()-->   code under test
//   harness <--take()--              <--write()--
//
// How much one read or write moves, and when they would block, is up to the harness, so that every way a socket may
// cut a message in pieces can be had. fd() answers poll(2) truthfully at each moment without a system call: of four
// descriptors it returns the one that is as readable and writable as the line is.
//
// Thread safety: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "fabric/stream.h"
#include "wire/codec.h"

namespace comex::fuzz {

class MemoryLine {
 public:
  static constexpr std::size_t kNoLimit = SIZE_MAX;

  // --- the harness's end ---
  void send(wire::ByteView bytes) { incoming_.insert(incoming_.end(), bytes.begin(), bytes.end()); }
  // The stream ends after what was sent.
  void end() { ended_ = true; }
  // What was written since the last time.
  wire::Bytes take() { return std::exchange(outgoing_, {}); }
  // The most that each of the next reads (writes) moves; 0: it would block, once. Afterwards there is no limit.
  void pace_reads(std::vector<std::uint16_t> pieces) { read_pieces_ = {std::move(pieces)}; }
  void pace_writes(std::vector<std::uint16_t> pieces) { write_pieces_ = {std::move(pieces)}; }
  // From now on poll says that there is something to read, and read finds nothing: TLS records that carry no data.
  void babble() { babbles_ = true; }
  // How many bytes more can be written before writes block until this is called again.
  void allow_writes(std::size_t bytes) { write_allowance_ = bytes; }

  [[nodiscard]] bool readable() const { return at_ < incoming_.size() || ended_ || shut_ || babbles_; }
  [[nodiscard]] bool writable() const { return write_allowance_ > 0 || shut_; }
  [[nodiscard]] std::size_t unread() const { return incoming_.size() - at_; }
  [[nodiscard]] bool shut() const { return shut_; }
  // Grows whenever a read or write had any effect, a piece of size 0 included.
  [[nodiscard]] std::uint64_t moved() const { return moved_; }

 private:
  friend class MemoryStream;
  struct Pieces {
    std::vector<std::uint16_t> sizes;
    std::size_t next = 0;
    // How much the next call may move.
    std::size_t take() { return next < sizes.size() ? sizes[next++] : kNoLimit; }
    [[nodiscard]] bool left() const { return next < sizes.size(); }
  };

  IoResult read(std::span<const iovec> into);
  IoResult write(std::span<const iovec> from);
  [[nodiscard]] int fd() const;
  IoResult blocked();

  wire::Bytes incoming_;
  std::size_t at_ = 0;
  bool ended_ = false;
  bool shut_ = false;
  bool babbles_ = false;
  wire::Bytes outgoing_;
  std::size_t write_allowance_ = kNoLimit;
  Pieces read_pieces_;
  Pieces write_pieces_;
  std::uint64_t moved_ = 0;
  unsigned blocked_in_a_row_ = 0;
};

class MemoryStream final : public Stream {
 public:
  explicit MemoryStream(std::shared_ptr<MemoryLine> line) : line_(std::move(line)) {}
  IoResult read(std::span<const iovec> into) noexcept override { return line_->read(into); }
  IoResult write(std::span<const iovec> from) noexcept override { return line_->write(from); }
  [[nodiscard]] int fd() const noexcept override { return line_->fd(); }
  void shut() noexcept override { line_->shut_ = true; }

 private:
  std::shared_ptr<MemoryLine> line_;
};

}  // namespace comex::fuzz
