#include "run/syscalls/syscall_table.h"

#include "run/syscalls/syscall_lasting.h"
#include "run/syscalls/syscalls_files.h"
#include "run/syscalls/syscalls_system.h"
#include "run/syscalls/syscalls_tasks.h"

namespace comex::syscalls {
namespace {

constexpr Entry kUnknown{UINT16_MAX, "unknown", Class::unknown};

struct Table {
  std::array<Entry, kEntries> entries{};
  bool sound = true;  // no number twice or out of bounds
};

template <std::size_t N>
constexpr void add(Table& table, const Entry (&rows)[N]) {
  for (const Entry& row : rows) {
    if (row.number >= kEntries || table.entries[row.number].kind != Class::unknown) {
      table.sound = false;
      continue;
    }
    table.entries[row.number] = row;
  }
}

constexpr Table make_table() {
  Table table;
  table.entries.fill(kUnknown);
  add(table, rows::kFiles);
  add(table, rows::kTasks);
  add(table, rows::kSockets);
  add(table, rows::kIpc);
  add(table, rows::kTime);
  add(table, rows::kSystem);
  add(table, rows::kAsynchronous);
  return table;
}

constexpr Table kTable = make_table();
static_assert(kTable.sound);

// Flags of send and receive calls, requests and options that change the class of a call.
constexpr std::uint64_t kMsgZerocopy = 0x4000000;
constexpr std::uint64_t kDuplicate = 0, kDuplicateCloexec = 1030;
constexpr std::uint64_t kIoctlType = 8, kUserfaultfdType = 0xAA, kKvmType = 0xAE;
constexpr std::uint64_t kSetMm = 35;
constexpr std::uint64_t kTcp = 6, kTcpZerocopyReceive = 35;

bool is_zerocopy(const Call& call) noexcept {
  switch (static_cast<std::uint32_t>(call.number)) {
    case 44:                                            // sendto
    case 307: return call.arguments[3] & kMsgZerocopy;  // sendmmsg
    case 46: return call.arguments[2] & kMsgZerocopy;   // sendmsg
    default: return false;
  }
}

}  // namespace

const Entry& entry(std::uint64_t number) noexcept {
  const auto seen = static_cast<std::uint32_t>(number);  // the kernel looks at the lower half only
  return seen < kEntries ? kTable.entries[seen] : kUnknown;
}

Class class_of(const Call& call) noexcept {
  const Entry& row = entry(call.number);
  const auto operation = static_cast<std::uint32_t>(call.arguments[1]);
  switch (row.operations) {
    case Family::fcntl: return operation == kDuplicate || operation == kDuplicateCloexec ? Class::descriptor : row.kind;
    case Family::ioctl: {
      const auto type = operation >> kIoctlType & 0xFF;
      return type == kUserfaultfdType || type == kKvmType || may_pin(call) ? Class::lasting : row.kind;
    }
    case Family::setsockopt: return may_pin(call) ? Class::lasting : row.kind;
    case Family::prctl: {
      const auto option = static_cast<std::uint32_t>(call.arguments[0]);
      return option == kSyscallDispatch || option == kSetMm ? Class::lasting : row.kind;
    }
    case Family::getsockopt: {
      const bool maps_pages = operation == kTcp && static_cast<std::uint32_t>(call.arguments[2]) == kTcpZerocopyReceive;
      return maps_pages ? Class::layout : row.kind;
    }
    default: return is_zerocopy(call) ? Class::lasting : row.kind;
  }
}

}  // namespace comex::syscalls
