// A transfer longer than what may be pinned at once, made in pieces, of which the program sees one call.
// run/syscalls/syscall_pieces.h says which may be.
//
// Thread safety: an object is its thread's own. Fault path: yes.
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <cstdint>

#include "run/syscalls/syscall_pieces.h"
#include "run/syscalls/syscall_table.h"

namespace comex::runtime {

class LongTransfer {
 public:
  // `most`: bytes that may be pinned for a call.
  LongTransfer(const syscalls::Call& call, std::uint64_t most) noexcept;

  // False: the call is to be made as it is.
  [[nodiscard]] bool is_long() const noexcept { return pieces_ != syscalls::Pieces::never; }

  // Calls make(piece, goes_on) for each, and returns what the program is to see. `goes_on`: the kernel would not end
  // such a transfer for a signal once it has begun.
  template <typename Make>
  std::int64_t run(Make&& make) noexcept {
    const std::int64_t result = run_pieces(make);
    if (answered_ && receives_message()) tell_header();
    return result;
  }

 private:
  static constexpr std::size_t kVectors = 16;  // of a piece: few enough to be pinned one by one
  enum class What : std::uint8_t { nothing, bytes, vectors, message };
  struct Shape {
    What what = What::nothing;
    std::uint8_t memory = 0;  // argument
    std::uint8_t count = 0;   // argument: bytes, or vectors
    std::uint8_t offset = 0;  // argument: in the file; 0: none
  };

  template <typename Make>
  std::int64_t run_pieces(Make& make) noexcept {
    std::int64_t done = 0;
    for (;;) {
      const std::uint64_t wanted = next(static_cast<std::uint64_t>(done));
      if (over_) return done;
      if (wanted == 0) continue;  // vectors of no length
      const std::int64_t result = make(piece_, done > 0 && file_);
      if (result < 0) return done > 0 ? done : result;
      done += result;
      answer_ = header_;
      answered_ = true;
      const bool whole = pieces_ == syscalls::Pieces::first || static_cast<std::uint64_t>(done) >= bytes_;
      if (whole || static_cast<std::uint64_t>(result) < wanted) return done;
      if (receives_message() && answer_.msg_controllen > 0) return done;
    }
  }

  static Shape shape_of(const syscalls::Call& call, const syscalls::Entry& entry) noexcept;
  // Makes piece_ the one that begins after `done` bytes; returns its length.
  std::uint64_t next(std::uint64_t done) noexcept;
  std::uint64_t next_vectors(std::uint64_t done) noexcept;
  // Finds the vectors, in the header of a message or behind an argument; false if they are not to be found, or what
  // goes with them belongs to all of the call.
  bool find_vectors() noexcept;
  // How many bytes all vectors have; false if they cannot be read, or make no sense, or are short.
  bool measure() noexcept;
  [[nodiscard]] bool receives_message() const noexcept;
  // What the kernel has said of a message, in the program's header.
  void tell_header() const noexcept;

  const syscalls::Call& call_;
  const std::uint64_t most_;
  Shape shape_;
  syscalls::Pieces pieces_ = syscalls::Pieces::never;
  bool file_ = false;
  std::uint64_t bytes_ = 0;
  std::uint64_t list_ = 0;    // where the vectors are
  std::uint64_t listed_ = 0;  // how many
  std::uint64_t index_ = 0;   // of the vector that the next piece begins in
  std::uint64_t inside_ = 0;  // bytes of it that are done
  bool over_ = false;         // there are no more vectors
  syscalls::Call piece_;
  std::array<iovec, kVectors> vectors_;
  msghdr program_header_{};
  msghdr header_{};  // of the piece
  msghdr answer_{};  // of the last that was made
  bool answered_ = false;
};

}  // namespace comex::runtime
