// What ioctl requests touch behind argument 2. A modern request says itself how many bytes go which way; the old ones
// of terminals, sockets and disks are bare numbers and stand in a table. What is neither is guessed.
#include <span>

#include "run/syscalls/syscall_memory.h"
#include "run/syscalls/syscall_operations.h"

namespace comex::syscalls {
namespace {

constexpr Memory kNothing{};
constexpr std::uint32_t kTermios = 36, kTermio = 18, kWinsize = 8, kIfreq = 40, kArpreq = 68, kRtentry = 120;
// An interface request, with more behind a pointer in it that depends on the request.
constexpr Memory kIfreqAndMore = guess(2, kIfreq);

struct Request {
  std::uint32_t value;
  Memory memory;
};

constexpr Request kRequests[] = {
    {0x0001, inout(2, 4)},                               // FIBMAP
    {0x0002, out(2, 4)},                                 // FIGETBSZ
    {0x0301, out(2, 16)},                                // HDIO_GETGEO
    {0x1261, kNothing},                                  // BLKFLSBUF
    {0x125D, in(2, 4)},                                  // BLKROSET
    {0x125E, out(2, 4)},                                 // BLKROGET
    {0x125F, kNothing},                                  // BLKRRPART
    {0x1260, out(2, 8)},                                 // BLKGETSIZE
    {0x1262, kNothing},                                  // BLKRASET
    {0x1263, out(2, 8)},                                 // BLKRAGET
    {0x1264, kNothing},                                  // BLKFRASET
    {0x1265, out(2, 8)},                                 // BLKFRAGET
    {0x1267, out(2, 2)},                                 // BLKSECTGET
    {0x1268, out(2, 4)},                                 // BLKSSZGET
    {0x1277, in(2, 16)},                                 // BLKDISCARD
    {0x1278, out(2, 4)},                                 // BLKIOMIN
    {0x1279, out(2, 4)},                                 // BLKIOOPT
    {0x127A, out(2, 4)},                                 // BLKALIGNOFF
    {0x127B, out(2, 4)},                                 // BLKPBSZGET
    {0x127C, out(2, 4)},                                 // BLKDISCARDZEROES
    {0x127D, in(2, 16)},                                 // BLKSECDISCARD
    {0x127E, out(2, 2)},                                 // BLKROTATIONAL
    {0x127F, in(2, 16)},                                 // BLKZEROOUT
    {0x2285, guess(2, 88)},                              // SG_IO
    {0x5401, out(2, kTermios)},                          // TCGETS
    {0x5402, in(2, kTermios)},                           // TCSETS
    {0x5403, in(2, kTermios)},                           // TCSETSW
    {0x5404, in(2, kTermios)},                           // TCSETSF
    {0x5405, out(2, kTermio)},                           // TCGETA
    {0x5406, in(2, kTermio)},                            // TCSETA
    {0x5407, in(2, kTermio)},                            // TCSETAW
    {0x5408, in(2, kTermio)},                            // TCSETAF
    {0x5409, kNothing},                                  // TCSBRK
    {0x540A, kNothing},                                  // TCXONC
    {0x540B, kNothing},                                  // TCFLSH
    {0x540C, kNothing},                                  // TIOCEXCL
    {0x540D, kNothing},                                  // TIOCNXCL
    {0x540E, kNothing},                                  // TIOCSCTTY
    {0x540F, out(2, 4)},                                 // TIOCGPGRP
    {0x5410, in(2, 4)},                                  // TIOCSPGRP
    {0x5411, out(2, 4)},                                 // TIOCOUTQ
    {0x5412, in(2, 1)},                                  // TIOCSTI
    {0x5413, out(2, kWinsize)},                          // TIOCGWINSZ
    {0x5414, in(2, kWinsize)},                           // TIOCSWINSZ
    {0x5415, out(2, 4)},                                 // TIOCMGET
    {0x5416, in(2, 4)},                                  // TIOCMBIS
    {0x5417, in(2, 4)},                                  // TIOCMBIC
    {0x5418, in(2, 4)},                                  // TIOCMSET
    {0x5419, out(2, 4)},                                 // TIOCGSOFTCAR
    {0x541A, in(2, 4)},                                  // TIOCSSOFTCAR
    {0x541B, out(2, 4)},                                 // FIONREAD
    {0x541D, kNothing},                                  // TIOCCONS
    {0x541E, out(2, 72)},                                // TIOCGSERIAL
    {0x541F, in(2, 72)},                                 // TIOCSSERIAL
    {0x5420, in(2, 4)},                                  // TIOCPKT
    {0x5421, in(2, 4)},                                  // FIONBIO
    {0x5422, kNothing},                                  // TIOCNOTTY
    {0x5423, in(2, 4)},                                  // TIOCSETD
    {0x5424, out(2, 4)},                                 // TIOCGETD
    {0x5425, kNothing},                                  // TCSBRKP
    {0x5427, kNothing},                                  // TIOCSBRK
    {0x5428, kNothing},                                  // TIOCCBRK
    {0x5429, out(2, 4)},                                 // TIOCGSID
    {0x5437, kNothing},                                  // TIOCVHANGUP
    {0x5441, kNothing},                                  // TIOCGPTPEER
    {0x5450, kNothing},                                  // FIONCLEX
    {0x5451, kNothing},                                  // FIOCLEX
    {0x5452, in(2, 4)},                                  // FIOASYNC
    {0x5456, out(2, kTermios)},                          // TIOCGLCKTRMIOS
    {0x5457, in(2, kTermios)},                           // TIOCSLCKTRMIOS
    {0x545C, kNothing},                                  // TIOCMIWAIT
    {0x545D, out(2, 80)},                                // TIOCGICOUNT
    {0x5460, out(2, 8)},                                 // FIOQSIZE
    {0x8901, in(2, 4)},                                  // FIOSETOWN
    {0x8902, in(2, 4)},                                  // SIOCSPGRP
    {0x8903, out(2, 4)},                                 // FIOGETOWN
    {0x8904, out(2, 4)},                                 // SIOCGPGRP
    {0x8905, out(2, 4)},                                 // SIOCATMARK
    {0x8906, out(2, 16)},                                // SIOCGSTAMP
    {0x8907, out(2, 16)},                                // SIOCGSTAMPNS
    {0x890B, in(2, kRtentry)},                           // SIOCADDRT
    {0x890C, in(2, kRtentry)},                           // SIOCDELRT
    {0x8912, as(Extent::if_list, Direction::inout, 2)},  // SIOCGIFCONF
    {0x894B, out(2, 4)},                                 // SIOCOUTQNSD
    {0x8953, in(2, kArpreq)},                            // SIOCDARP
    {0x8954, inout(2, kArpreq)},                         // SIOCGARP
    {0x8955, in(2, kArpreq)},                            // SIOCSARP
    {0x8946, kIfreqAndMore},                             // SIOCETHTOOL
    // The structure is followed by as many elements as it says.
    {0xC020660B, {Extent::counted, Direction::inout, 2, 24, {}, 56, 32}},  // FS_IOC_FIEMAP
    {0xC0189436, {Extent::counted, Direction::inout, 2, 16, {}, 32, 24}},  // FIDEDUPERANGE
    {0x80086601, out(2, 4)},  // FS_IOC_GETFLAGS: an int, whatever the number says
    {0x40086602, in(2, 4)},   // FS_IOC_SETFLAGS
};

// _IOC of the kernel's headers: 8 bits number, 8 bits type, 14 bits size, 2 bits direction.
constexpr std::uint32_t kWrites = 1, kReads = 2;  // as the program sees it
constexpr std::uint32_t type_of(std::uint32_t request) {
  return request >> 8 & 0xFF;
}
constexpr std::uint32_t size_of(std::uint32_t request) {
  return request >> 16 & 0x3FFF;
}
constexpr std::uint32_t direction_of(std::uint32_t request) {
  return request >> 30;
}

constexpr std::uint32_t kPointer = 8;
constexpr std::uint32_t kInterfaces = 0x89;
constexpr std::uint32_t kFirstInterfaceRequest = 0x8910, kPrivateRequests = 0x89F0;

constexpr Direction direction(std::uint32_t request) {
  const auto both = direction_of(request);
  if ((both & kReads) == 0) return Direction::in;
  return (both & kWrites) != 0 ? Direction::inout : Direction::out;
}

}  // namespace

Operation ioctl_operation(std::uint32_t request) noexcept {
  for (const Request& known : kRequests)
    if (known.value == request) return {request, {known.memory}};
  // Flat in most cases; where there are pointers inside, only the driver knows what they lead to.
  if (const auto size = size_of(request); direction_of(request) != 0 && size != 0) {
    const auto extent = size < kPointer ? Extent::fixed : Extent::guess;
    return {request, {{extent, direction(request), 2, 0, {}, size, 0}}};
  }
  if (type_of(request) == kInterfaces && request >= kFirstInterfaceRequest)
    return {request, {request < kPrivateRequests ? inout(2, kIfreq) : kIfreqAndMore}};
  return {request, {}, true};
}

}  // namespace comex::syscalls
