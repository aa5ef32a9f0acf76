// The structures through which a system call leads to more memory than its arguments say.
#include "run/syscalls/syscall_walk.h"

namespace comex::syscalls {
namespace {

// As the kernel lays them out on x86-64; C libraries differ in names and padding.
struct IoVector {
  std::uint64_t base, bytes;
};
struct MessageHeader {
  std::uint64_t name;
  std::int32_t name_bytes, padding;
  std::uint64_t vectors, vector_count, control, control_bytes;
  std::uint32_t flags, padding2;
};
static_assert(sizeof(MessageHeader) == 56);
constexpr std::size_t kMessageInArray = 64;  // mmsghdr: the header, and how many bytes were moved
struct Waiter {
  std::uint64_t value, address;
  std::uint32_t flags, reserved;
};
static_assert(sizeof(Waiter) == 24);
struct CloneArguments {
  std::uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_bytes, tls, set_tid, set_tid_count,
      cgroup;
};
struct Iocb {
  std::uint64_t data;
  std::uint32_t key, flags;
  std::uint16_t operation;
  std::int16_t priority;
  std::uint32_t descriptor;
  std::uint64_t buffer, bytes, offset, reserved;
  std::uint32_t more_flags, event_descriptor;
};
static_assert(sizeof(Iocb) == 64);
struct PointerAndSize {
  std::uint64_t pointer, bytes;
};
struct SizeAndPointer {
  std::uint32_t count, padding;
  std::uint64_t pointer;
};
struct Event {
  std::uint64_t value;
  std::int32_t signal, notify;
  std::uint64_t rest[6];
};
static_assert(sizeof(Event) == 64);
struct RingWait {
  std::uint64_t mask;
  std::uint32_t mask_bytes, microseconds;
  std::uint64_t time;
};

constexpr std::uint64_t kMaxVectors = 1024;  // UIO_MAXIOV
constexpr std::uint64_t kMaxWaiters = 128;
constexpr std::uint64_t kMaxRequests = 65536;
constexpr std::uint64_t kMaxAddress = 128;  // sockaddr_storage
constexpr std::uint64_t kTimespec = 16, kSigset = 8, kInstruction = 8;

}  // namespace

bool Walk::iovecs(Address array, std::uint64_t count, bool described, bool kernel_writes) noexcept {
  if (array == 0 || count == 0 || count > kMaxVectors) return true;
  if (!range(array, count * sizeof(IoVector), false) || !described) return go_on();
  std::uint64_t left = kMaxTransfer;
  bool valid = true;
  return for_each<IoVector>(array, count, [&](const IoVector& vector) {
    // A negative length makes the call fail as a whole.
    if (static_cast<std::int64_t>(vector.bytes) < 0) valid = false;
    if (!valid) return true;
    const auto bytes = std::min(vector.bytes, left);
    left -= bytes;
    return range(vector.base, bytes, kernel_writes);
  });
}

bool Walk::message(Address header, bool receives) noexcept {
  const auto message = fetch<MessageHeader>(header, receives);
  if (!message) return go_on();
  if (message->name_bytes > 0) {
    const auto bytes = std::min(static_cast<std::uint64_t>(message->name_bytes), kMaxAddress);
    if (!range(message->name, bytes, receives)) return false;
  }
  return range(message->control, message->control_bytes, receives) &&
         iovecs(message->vectors, message->vector_count, true, receives);
}

// The kernel notes in each how much was moved, also when it sends.
bool Walk::messages(Address array, std::uint64_t count, bool receives) noexcept {
  const auto taken = std::min(count, kMaxVectors);
  if (!range(array, taken * kMessageInArray, true)) return false;
  for (std::uint64_t i = 0; i < taken; ++i)
    if (!message(array + i * kMessageInArray, receives)) return false;
  return true;
}

bool Walk::waiters(Address array, std::uint64_t count) noexcept {
  if (count == 0 || count > kMaxWaiters) return true;
  if (!range(array, count * sizeof(Waiter), false)) return false;
  return for_each<Waiter>(array, count, [this](const Waiter& waiter) {
    return range(waiter.address, std::uint64_t{1} << (waiter.flags & 3), false);
  });
}

bool Walk::clone_arguments(Address address, std::uint64_t bytes) noexcept {
  constexpr std::uint64_t kFirstVersion = 64, kPidfd = 0x1000, kParentTid = 0x100000, kChildTid = 0x1200000;
  constexpr std::uint64_t kMaxNamespaces = 32;
  if (bytes < kFirstVersion || bytes > kPage) return true;
  if (!range(address, bytes, false)) return false;
  CloneArguments arguments{};
  if (!read(address, arguments, std::min(bytes, sizeof arguments))) return true;
  if ((arguments.flags & kPidfd) != 0 && !range(arguments.pidfd, 4, true)) return false;
  if ((arguments.flags & kParentTid) != 0 && !range(arguments.parent_tid, 4, true)) return false;
  if ((arguments.flags & kChildTid) != 0 && !range(arguments.child_tid, 4, true)) return false;
  return arguments.set_tid_count > kMaxNamespaces || range(arguments.set_tid, arguments.set_tid_count * 4, false);
}

bool Walk::requests(Address vector, std::uint64_t count) noexcept {
  if (static_cast<std::int64_t>(count) <= 0) return true;
  const auto taken = std::min(count, kMaxRequests);
  if (!range(vector, taken * sizeof(Address), false)) return false;
  return for_each<Address>(vector, taken, [this](Address iocb) { return request(iocb); });
}

bool Walk::request(Address iocb) noexcept {
  constexpr std::uint16_t kRead = 0, kWrite = 1, kReadVectors = 7, kWriteVectors = 8;
  const auto request = fetch<Iocb>(iocb, true);  // the kernel writes the key
  if (!request) return go_on();
  switch (request->operation) {
    case kRead: return range(request->buffer, request->bytes, true);
    case kWrite: return range(request->buffer, request->bytes, false);
    case kReadVectors: return iovecs(request->buffer, request->bytes, true, true);
    case kWriteVectors: return iovecs(request->buffer, request->bytes, true, false);
    default: return true;
  }
}

bool Walk::mask_pair(Address address) noexcept {
  const auto pair = fetch<PointerAndSize>(address);
  return pair && pair->bytes == kSigset ? range(pair->pointer, kSigset, false) : go_on();
}

bool Walk::filter(Address address) noexcept {
  const auto program = fetch<SizeAndPointer>(address);
  if (!program) return go_on();
  return range(program->pointer, (program->count & 0xFFFF) * kInstruction, false);
}

bool Walk::event(Address address) noexcept {
  constexpr std::int32_t kNotifyThread = 2;
  constexpr std::uint64_t kCookie = 32;
  const auto event = fetch<Event>(address);
  return event && event->notify == kNotifyThread ? range(event->value, kCookie, false) : go_on();
}

bool Walk::xattr(Address address, std::uint64_t bytes, bool kernel_writes) noexcept {
  if (bytes < sizeof(PointerAndSize) || bytes > kPage) return true;
  if (!range(address, bytes, false)) return false;
  const auto value = fetch<PointerAndSize>(address);  // in the upper half of the size: flags
  return value ? range(value->pointer, value->bytes & 0xFFFFFFFF, kernel_writes) : go_on();
}

bool Walk::ring_wait(Address address, std::uint64_t bytes) noexcept {
  if (bytes != sizeof(RingWait)) return true;
  const auto wait = fetch<RingWait>(address);
  if (!wait) return go_on();
  return range(wait->mask, wait->mask_bytes, false) && range(wait->time, kTimespec, false);
}

bool Walk::interface_list(Address address) noexcept {
  const auto list = fetch<SizeAndPointer>(address, true);
  return list && static_cast<std::int32_t>(list->count) > 0 ? range(list->pointer, list->count, true) : go_on();
}

bool Walk::capability(const Memory& memory) noexcept {
  constexpr std::uint32_t kFirstVersion = 0x19980330;
  const auto version = fetch<std::uint32_t>(argument(memory.by), true);
  if (!version) return go_on();
  return range(argument(memory.argument), *version == kFirstVersion ? 12 : 24, memory.direction != Direction::in);
}

}  // namespace comex::syscalls
