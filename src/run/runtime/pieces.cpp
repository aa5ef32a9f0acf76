#include "run/runtime/pieces.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <termios.h>

#include <algorithm>
#include <cstddef>

#include "run/runtime/gate_entry.h"
#include "run/runtime/program_memory.h"
#include "run/syscalls/syscall_ranges.h"

namespace comex::runtime {
namespace {

using syscalls::Call;
using syscalls::Cut;
using syscalls::Descriptor;

constexpr std::uint64_t kMostVectors = 1024;  // of the kernel

std::int64_t kernel(std::uint64_t number, std::uint64_t a, std::uint64_t b, std::uint64_t c = 0, std::uint64_t d = 0,
                    std::uint64_t e = 0) noexcept {
  return comex_gate_call(number, a, b, c, d, e, 0);
}

Descriptor socket_kind(std::uint64_t fd) noexcept {
  int type = 0;
  socklen_t bytes = sizeof type;
  const bool known = kernel(SYS_getsockopt, fd, SOL_SOCKET, SO_TYPE, reinterpret_cast<std::uint64_t>(&type),
                            reinterpret_cast<std::uint64_t>(&bytes)) == 0;
  return known && type == SOCK_STREAM ? Descriptor::stream : Descriptor::message;
}

Descriptor device_kind(std::uint64_t fd, dev_t device) noexcept {
  constexpr unsigned kMemoryDevices = 1;  // /dev/zero, /dev/null, /dev/urandom
  if (major(device) == kMemoryDevices) return Descriptor::file;
  termios settings;
  const bool terminal = kernel(SYS_ioctl, fd, TCGETS, reinterpret_cast<std::uint64_t>(&settings)) == 0;
  return terminal ? Descriptor::stream : Descriptor::message;
}

Descriptor kind_of(std::uint64_t fd) noexcept {
  struct stat status;
  if (kernel(SYS_fstat, fd, reinterpret_cast<std::uint64_t>(&status)) != 0) return Descriptor::message;
  switch (status.st_mode & S_IFMT) {
    case S_IFREG:
    case S_IFBLK: return Descriptor::file;
    case S_IFSOCK: return socket_kind(fd);
    case S_IFCHR: return device_kind(fd, status.st_rdev);
    case S_IFIFO: return (kernel(SYS_fcntl, fd, F_GETFL) & O_DIRECT) == 0 ? Descriptor::stream : Descriptor::message;
    default: return Descriptor::message;
  }
}

}  // namespace

LongTransfer::Shape LongTransfer::shape_of(const Call& call, const syscalls::Entry& entry) noexcept {
  using syscalls::Extent;
  if (call.number == SYS_getrandom) return {What::bytes, 0, 1, 0};
  const Extent extent = entry.memory[0].extent;
  const What what = extent == Extent::iovec ? What::vectors : What::bytes;
  switch (entry.cut) {
    case Cut::by_file: return {what, 1, 2, 0};
    case Cut::by_socket:
      if (extent == Extent::message) return {What::message, 1, 0, 0};
      return extent == Extent::iovec || extent == Extent::bytes ? Shape{what, 1, 2, 0} : Shape{};
    case Cut::at_offset: {
      constexpr std::uint64_t kHere = UINT64_MAX;  // of preadv2 and pwritev2
      return {what, 1, 2, static_cast<std::uint8_t>(call.arguments[3] == kHere ? 0 : 3)};
    }
    default: return {};
  }
}

LongTransfer::LongTransfer(const Call& call, std::uint64_t most) noexcept
    : call_(call), most_(most & ~std::uint64_t{syscalls::kPieceAlignment - 1}) {
  const syscalls::Entry& entry = syscalls::entry(call.number);
  shape_ = shape_of(call, entry);
  if (shape_.what == What::nothing) return;
  if (shape_.what == What::bytes) {
    const std::uint64_t count = call.arguments[shape_.count];
    if (count <= most_) return;
    bytes_ = std::min<std::uint64_t>(count, syscalls::kMaxTransfer);
  } else if (!find_vectors() || !measure()) {
    return;
  }
  const Descriptor kind = call.number == SYS_getrandom ? Descriptor::message : kind_of(call.arguments[0]);
  pieces_ = syscalls::pieces_of(call, kind);
  file_ = kind == Descriptor::file;
}

bool LongTransfer::find_vectors() noexcept {
  const std::uint64_t memory = call_.arguments[shape_.memory];
  if (shape_.what == What::vectors) {
    list_ = memory;
    listed_ = call_.arguments[shape_.count];
    return true;
  }
  if (!copy_in(memory, &program_header_, sizeof program_header_)) return false;
  list_ = reinterpret_cast<std::uint64_t>(program_header_.msg_iov);
  listed_ = program_header_.msg_iovlen;
  if (receives_message() || program_header_.msg_controllen == 0) return true;
  // Those of sockets in general (descriptors, credentials) go with the first byte. Those of a protocol (the type of a
  // record of TLS) are about all of them.
  cmsghdr control;
  return copy_in(reinterpret_cast<std::uint64_t>(program_header_.msg_control), &control, sizeof control) &&
         control.cmsg_level == SOL_SOCKET;
}

bool LongTransfer::receives_message() const noexcept {
  return shape_.what == What::message && call_.number == SYS_recvmsg;
}

void LongTransfer::tell_header() const noexcept {
  const auto tell = [&](std::size_t offset, const auto& field) {
    (void)copy_out(call_.arguments[shape_.memory] + offset, &field, sizeof field);
  };
  tell(offsetof(msghdr, msg_namelen), answer_.msg_namelen);
  tell(offsetof(msghdr, msg_controllen), answer_.msg_controllen);
  tell(offsetof(msghdr, msg_flags), answer_.msg_flags);
}

bool LongTransfer::measure() noexcept {
  if (listed_ == 0 || listed_ > kMostVectors) return false;
  std::array<iovec, kVectors> some;
  for (std::uint64_t i = 0; i < listed_; i += kVectors) {
    const std::uint64_t now = std::min<std::uint64_t>(kVectors, listed_ - i);
    if (!copy_in(list_ + i * sizeof(iovec), some.data(), now * sizeof(iovec))) return false;
    for (std::uint64_t k = 0; k < now; ++k) {
      if (static_cast<std::int64_t>(some[k].iov_len) < 0) return false;
      bytes_ = std::min<std::uint64_t>(bytes_ + some[k].iov_len, syscalls::kMaxTransfer);
    }
  }
  return listed_ > kVectors || bytes_ > most_;
}

std::uint64_t LongTransfer::next(std::uint64_t done) noexcept {
  piece_ = call_;
  if (shape_.offset != 0) piece_.arguments[shape_.offset] += done;
  if (shape_.what != What::bytes) return next_vectors(done);
  const std::uint64_t now = std::min(most_, bytes_ - done);
  piece_.arguments[shape_.memory] += done;
  piece_.arguments[shape_.count] = now;
  return now;
}

// A piece follows only one that was made whole: the place where it ended is where the next begins.
std::uint64_t LongTransfer::next_vectors(std::uint64_t done) noexcept {
  const std::uint64_t count = std::min<std::uint64_t>(kVectors, listed_ - index_);
  std::uint64_t bytes = 0;
  std::size_t used = 0;
  const bool read = copy_in(list_ + index_ * sizeof(iovec), vectors_.data(), count * sizeof(iovec));
  while (read && used < count && bytes < most_) {
    iovec& one = vectors_[used++];
    one.iov_base = static_cast<std::byte*>(one.iov_base) + inside_;
    const std::uint64_t there = one.iov_len - inside_;
    one.iov_len = std::min({there, most_ - bytes, bytes_ - done - bytes});
    bytes += one.iov_len;
    inside_ = one.iov_len < there ? inside_ + one.iov_len : 0;
    index_ += one.iov_len < there ? 0 : 1;
  }
  over_ = used == 0;
  if (shape_.what == What::vectors) {
    piece_.arguments[shape_.memory] = reinterpret_cast<std::uint64_t>(vectors_.data());
    piece_.arguments[shape_.count] = used;
    return bytes;
  }
  header_ = program_header_;
  header_.msg_iov = vectors_.data();
  header_.msg_iovlen = used;
  if (done > 0 && !receives_message()) header_.msg_control = nullptr, header_.msg_controllen = 0;
  piece_.arguments[shape_.memory] = reinterpret_cast<std::uint64_t>(&header_);
  return bytes;
}

}  // namespace comex::runtime
