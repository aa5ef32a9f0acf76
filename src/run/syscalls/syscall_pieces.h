// Whether the gate may make a long transfer in several calls, so that it need not have all of it resident at once,
// while the program still sees one call.
//
// Pieces::never       the call is made as it is. Always right where nothing below applies.
// Pieces::first       only the first piece is made; the program gets a short count, as it might from the kernel at any
//                     time: what it reads from a pipe, terminal or stream socket, how many events or entries it is
//                     given.
// Pieces::all         piece after piece. Stop at the first that comes back short, and give the program the sum; an
//                     error (EAGAIN, EINTR, ENOSPC, EPIPE) counts only if nothing was moved before it.
//
// Why messages are never cut: each piece of a write to a datagram or packet socket, an eventfd, a terminal-like device
// or /dev/fuse would be a message of its own, and a read of a message into a smaller buffer loses the rest of it.
//
// Control messages (sendmsg, recvmsg) belong to a place in the stream: those sent go with the first piece, and the
// first that is received ends the call, as it does in the kernel where they are descriptors.
//
// Known differences to one call, which the manual allows: with O_APPEND, or on a pipe with several writers, another
// writer's data may come between pieces (longer than PIPE_BUF it may anyway); another reader of the file may see the
// first pieces before the last are there. With O_DIRECT the length of a piece must be a multiple of the block size:
// use kPieceAlignment.
//
// Thread safety: any thread. Fault path, signal handlers: yes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "run/syscalls/syscall_table.h"

namespace comex::syscalls {

// A piece should be a multiple of this, for O_DIRECT.
constexpr std::size_t kPieceAlignment = 4096;

// What the call's descriptor is; the gate finds out by fstat and SO_TYPE.
enum class Descriptor : std::uint8_t {
  file,     // a regular file or block device
  stream,   // a pipe (not in packet mode, O_DIRECT), a terminal, a SOCK_STREAM socket
  message,  // everything else, and whatever is not known
};

enum class Pieces : std::uint8_t { never, first, all };

Pieces pieces_of(const Call& call, Descriptor descriptor) noexcept;

}  // namespace comex::syscalls
