// The file of a trace.
//
//   file     header, chunks
//   header   "comextrc", version u16, page size u32, start u64 (ns since 1970), local budget u64 (bytes), command
//   chunk    kind u8, length u32, and so many bytes:
//     1 process   number u32, process id u32, time u64, name     before anything else of this number
//     2 faults    number u32, time u64, page u64, records
//     3 dropped   number u32, time u64, count u64                so many faults until then are not in the trace
//   record   what u8: the origin in 4 bits; 16: a write; then, for each of these bits, a varint follows:
//            32: thread id, if it is another than that of the record before; there is none before the first
//            64: pages that came along, if there were any
//            128: pages that were asked for, to wait in the read buffer, if there were any
//            varint, zigzag: ns since the record before, or the chunk's time; may be negative
//            varint, zigzag: pages from the one of the record before, or the chunk's page
//
// Integers are little-endian, text is a u16 and so many bytes, times are ns since the start. A varint has seven bits
// in a byte, the lowest first, and 128 in each but the last. A number is of a process until its next chunk of kind 1:
// exec makes another program of a process. A record takes about 6 bytes, where one of fixed size would take 16 or more.
//
// A file that ends in the middle (the machine, or the keeper, was stopped) is good up to its last whole record.
//
// Thread safety: none.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trace/fault.h"

namespace comex {

struct TraceHeader {
  static constexpr std::string_view kMagic = "comextrc";
  static constexpr std::uint16_t kVersion = 1;

  std::uint32_t page_size = 4096;
  std::uint64_t start = 0;
  std::uint64_t local = 0;
  std::string command;

  friend bool operator==(const TraceHeader&, const TraceHeader&) = default;
};

struct TraceProcess {
  std::uint32_t number = 0;
  std::uint32_t pid = 0;
  std::uint64_t time = 0;
  std::string name;

  friend bool operator==(const TraceProcess&, const TraceProcess&) = default;
};

enum class TraceChunk : std::uint8_t { process = 1, faults = 2, dropped = 3 };

struct TraceBits {
  static constexpr unsigned kOrigin = 15;
  static constexpr unsigned kWrite = 16;
  static constexpr unsigned kThread = 32;
  static constexpr unsigned kAlong = 64;
  static constexpr unsigned kAround = 128;
};

class TraceEncoder {
 public:
  void header(const TraceHeader& header);
  void process(const TraceProcess& process);
  // All of one process.
  void faults(std::uint32_t process, std::span<const TraceFault> faults);
  void dropped(std::uint32_t process, std::uint64_t time, std::uint64_t count);

  // What was encoded since this was last asked.
  std::vector<std::byte> take();

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace comex
