#include "run/syscalls/syscall_ranges.h"

#include "run/syscalls/syscall_operations.h"
#include "run/syscalls/syscall_walk.h"

namespace comex::syscalls {
namespace {

// No program has memory below; numbers that are not addresses mostly are.
constexpr std::uint64_t kLowestAddress = 65536;
// More than a process can have open by default (fs.nr_open).
constexpr std::uint64_t kMaxDescriptors = 1U << 20;
// Of the kernel: bytes of one argument or environment string.
constexpr std::size_t kMaxArgument = 131072;

constexpr bool is_user(std::uint64_t address, std::uint64_t bytes) {
  return address < kUserEnd && bytes <= kUserEnd - address;
}
constexpr bool writes(Direction direction) {
  return direction != Direction::in;
}
constexpr std::uint64_t words_for(std::uint64_t bits) {
  return (bits + 63) / 64 * 8;
}

}  // namespace

bool Walk::range(Address address, std::uint64_t bytes, bool kernel_writes) noexcept {
  const auto length = std::min<std::uint64_t>(bytes, kMaxTransfer);
  if (length == 0 || address == 0 || !is_user(address, length)) return true;
  if (result_.ranges == limit_) {
    result_.end = Enumeration::End::more;
    return false;
  }
  ++result_.ranges;
  if (visitor_.range({address, length, kernel_writes})) return true;
  result_.end = Enumeration::End::refused;
  return false;
}

// Page by page: the next is announced only if the string has not ended in this one.
bool Walk::string(Address address, std::size_t limit) noexcept {
  if (address == 0) return true;
  std::array<char, 256> some;
  for (std::size_t left = limit; left > 0;) {
    const auto in_page = std::min(left, kPage - address % kPage);
    if (!is_user(address, in_page)) return true;
    if (!range(address, in_page, false)) return false;
    for (std::size_t done = 0; done < in_page;) {
      const auto now = std::min(some.size(), in_page - done);
      if (!read(address + done, some, now)) return true;
      for (std::size_t i = 0; i < now; ++i)
        if (some[i] == '\0') return true;
      done += now;
    }
    address += in_page;
    left -= in_page;
  }
  return true;
}

// A piece never goes beyond the page that it begins in, where the vector may end, unless an element does.
bool Walk::pointers(Address vector) noexcept {
  if (vector == 0) return true;
  std::array<Address, 32> some;
  for (;;) {
    const auto in_page = (kPage - vector % kPage) / sizeof(Address);
    const auto now = std::clamp<std::size_t>(in_page, 1, some.size());
    const auto bytes = now * sizeof(Address);
    if (!is_user(vector, bytes)) return true;
    if (!range(vector, bytes, false)) return false;
    if (!read(vector, some, bytes)) return true;
    for (std::size_t i = 0; i < now; ++i) {
      if (some[i] == 0) return true;
      if (!string(some[i], kMaxArgument)) return false;
    }
    vector += bytes;
  }
}

bool Walk::guess_page(Address address) noexcept {
  result_.exact = false;
  if (address < kLowestAddress || address >= kUserEnd) return true;
  return range(address, std::min<std::uint64_t>(kPage, kUserEnd - address), true);
}

bool Walk::guess(Address address, std::size_t bytes, Direction direction) noexcept {
  result_.exact = false;
  if (address == 0 || !range(address, bytes, writes(direction))) return go_on();
  if (direction == Direction::out) return true;
  constexpr std::size_t kLookedAt = 32;
  return for_each<Address>(address, std::min(bytes / sizeof(Address), kLookedAt),
                           [this](Address word) { return word < kLowestAddress || guess_page(word); });
}

bool Walk::guess_arguments() noexcept {
  for (const auto argument : call_.arguments)
    if (!guess_page(argument)) return false;
  return true;
}

std::optional<std::uint64_t> Walk::count(const Memory& memory) const noexcept {
  const auto value = argument(memory.by);
  switch (memory.width) {
    case Width::word: return value;
    case Width::unsigned_int: return static_cast<std::uint32_t>(value);
    case Width::signed_int: break;
  }
  if (static_cast<std::int32_t>(value) < 0) return std::nullopt;
  return static_cast<std::uint32_t>(value);
}

// For extents that are no more than a number of bytes; nothing: the kernel will touch none.
std::optional<std::uint64_t> Walk::bytes(const Memory& memory) noexcept {
  if (memory.extent == Extent::fixed) return memory.size;
  if (memory.extent == Extent::socklen) {
    const auto length = argument(memory.by) == 0 ? std::nullopt : fetch<std::int32_t>(argument(memory.by), true);
    if (!length || *length < 0) return std::nullopt;
    const auto bytes = static_cast<std::uint64_t>(*length) * memory.size;
    return memory.extra == 0 ? bytes : std::min<std::uint64_t>(bytes, memory.extra);
  }
  if (memory.extent == Extent::self_sized || memory.extent == Extent::counted) {
    const auto at = argument(memory.argument);
    if (at == 0 || at >= kUserEnd) return std::nullopt;
    const auto stated = fetch<std::uint32_t>(at + memory.by, writes(memory.direction));
    if (!stated) return std::nullopt;
    if (memory.extent == Extent::counted) return std::uint64_t{*stated} * memory.size + memory.extra;
    // The kernel refuses a structure that is longer than a page.
    const auto bytes = std::uint64_t{*stated == 0 ? memory.size : *stated} + memory.extra;
    return bytes > kPage ? std::nullopt : std::optional(bytes);
  }
  const auto number = count(memory);
  if (!number) return std::nullopt;
  switch (memory.extent) {
    case Extent::bytes: return std::min<std::uint64_t>(*number, kMaxTransfer) + memory.extra;
    case Extent::elements:
      if (memory.extra != 0 && *number > memory.extra) return std::nullopt;
      return std::min<std::uint64_t>(*number, kMaxTransfer) * memory.size;
    case Extent::fd_set: return words_for(std::min(*number, kMaxDescriptors));
    case Extent::node_mask:
      // The kernel refuses more bits than fit in a page.
      return *number == 0 || *number > kPage * 8 ? std::nullopt : std::optional(words_for(*number - 1));
    case Extent::pages: return *number / kPage + (*number % kPage == 0 ? 0 : 1);
    default: return std::nullopt;
  }
}

bool Walk::memory(const Memory& memory) noexcept {
  const auto at = argument(memory.argument);
  if (memory.extent == Extent::none || at == 0) return true;
  switch (memory.extent) {
    case Extent::string: return string(at, memory.size);
    case Extent::strings: return pointers(at);
    case Extent::guess: return guess(at, memory.size, memory.direction);
    case Extent::fixed:
    case Extent::bytes:
    case Extent::elements:
    case Extent::socklen:
    case Extent::self_sized:
    case Extent::counted:
    case Extent::fd_set:
    case Extent::node_mask:
    case Extent::pages: {
      const auto length = bytes(memory);
      return length ? range(at, *length, writes(memory.direction)) : go_on();
    }
    default: return structure(memory);
  }
}

bool Walk::structure(const Memory& memory) noexcept {
  const auto at = argument(memory.argument);
  const bool kernel_writes = writes(memory.direction);
  const auto stated = memory.size != 0 ? memory.size : count(memory).value_or(0);
  switch (memory.extent) {
    case Extent::iovec: return iovecs(at, stated, true, kernel_writes);
    case Extent::iovec_only: return iovecs(at, stated, false, false);
    case Extent::remote_iovec: return iovecs(at, stated, visitor_.is_self(argument(0)), kernel_writes);
    case Extent::message: return message(at, kernel_writes);
    case Extent::messages: return messages(at, stated, kernel_writes);
    case Extent::mask_pair: return mask_pair(at);
    case Extent::filter: return filter(at);
    case Extent::event: return event(at);
    case Extent::clone: return clone_arguments(at, stated);
    case Extent::waiters: return waiters(at, stated);
    case Extent::xattr: return xattr(at, stated, kernel_writes);
    case Extent::aio: return requests(at, stated);
    case Extent::ring_wait: return ring_wait(at, stated);
    case Extent::if_list: return interface_list(at);
    case Extent::capability: return capability(memory);
    default: return true;
  }
}

Enumeration enumerate(const Call& call, Visitor& visitor, std::uint32_t limit) noexcept {
  Walk walk(call, visitor, limit);
  const Entry& row = entry(call.number);
  if (row.kind == Class::unknown) {
    walk.guess_arguments();
    return walk.result();
  }
  for (const Memory& memory : row.memory)
    if (!walk.memory(memory)) return walk.result();
  if (row.operations == Family::none) return walk.result();
  const Operation operation = operation_of(call);
  for (const Memory& memory : operation.memory)
    if (!walk.memory(memory)) return walk.result();
  if (operation.guessed) walk.guess_arguments();
  return walk.result();
}

}  // namespace comex::syscalls
