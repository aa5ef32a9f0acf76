#include "run/syscalls/syscall_pieces.h"

namespace comex::syscalls {
namespace {

enum class Way : std::uint8_t { in, out };

constexpr std::uint64_t kSendto = 44, kRecvfrom = 45, kSendmsg = 46, kRecvmsg = 47;
constexpr std::uint64_t kPreadv2 = 327, kPwritev2 = 328;
constexpr std::uint64_t kWaitAll = 0x100;  // MSG_WAITALL
// MSG_MORE says that the next call belongs to this one, MSG_NOSIGNAL and MSG_DONTWAIT how to fail. Anything else (peek,
// truncate, out of band, error queue, zero copy) makes a call a unit.
constexpr std::uint64_t kHarmlessFlags = 0x8000 | 0x4000 | 0x40;

// Reads fill the program's memory; the first Memory of the entry is the one that is transferred.
Way way_of(const Entry& row) noexcept {
  return row.memory[0].direction == Direction::in ? Way::in : Way::out;
}

Pieces by_file(const Entry& row, Descriptor descriptor) noexcept {
  switch (descriptor) {
    case Descriptor::file: return Pieces::all;
    case Descriptor::stream: return way_of(row) == Way::in ? Pieces::all : Pieces::first;
    case Descriptor::message: break;
  }
  return Pieces::never;
}

Pieces by_socket(const Call& call, const Entry& row, Descriptor descriptor) noexcept {
  if (descriptor != Descriptor::stream) return Pieces::never;
  const bool message = row.number == kSendmsg || row.number == kRecvmsg;
  const std::uint64_t flags = call.arguments[message ? 2 : 3] & ~kHarmlessFlags;
  switch (row.number) {
    case kSendto:
    case kSendmsg: return flags == 0 ? Pieces::all : Pieces::never;
    case kRecvfrom:
    case kRecvmsg:
      if (flags == kWaitAll) return Pieces::all;
      return flags == 0 ? Pieces::first : Pieces::never;
    default: return Pieces::never;
  }
}

// preadv2 and pwritev2 at offset -1 are readv and writev; flags may ask for atomicity or to append.
Pieces at_offset(const Call& call, const Entry& row, Descriptor descriptor) noexcept {
  const bool second = row.number == kPreadv2 || row.number == kPwritev2;
  if (second && call.arguments[5] != 0) return Pieces::never;
  if (second && static_cast<std::int64_t>(call.arguments[3]) == -1) return by_file(row, descriptor);
  return descriptor == Descriptor::file ? Pieces::all : Pieces::never;
}

}  // namespace

Pieces pieces_of(const Call& call, Descriptor descriptor) noexcept {
  const Entry& row = entry(call.number);
  switch (row.cut) {
    case Cut::never: return Pieces::never;
    case Cut::at_offset: return at_offset(call, row, descriptor);
    case Cut::by_file: return by_file(row, descriptor);
    case Cut::by_socket: return by_socket(call, row, descriptor);
    case Cut::shorter: return Pieces::first;
    case Cut::repeated: return Pieces::all;
  }
  return Pieces::never;
}

}  // namespace comex::syscalls
