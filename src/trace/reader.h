// Reads the file of a trace (trace/encoder.h has the format), whatever it contains: nothing is trusted.
//
// Thread safety: const functions from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/expected.h"
#include "trace/encoder.h"
#include "trace/fault.h"

namespace comex {

// Is told what is in a trace, in the order of the file.
class TraceVisitor {
 public:
  virtual ~TraceVisitor() = default;
  virtual void process(const TraceProcess&) {}
  virtual void fault(const TraceFault&) {}
  virtual void dropped(std::uint32_t /*process*/, std::uint64_t /*time*/, std::uint64_t /*count*/) {}
};

class TraceReader {
 public:
  // Errc::invalid if this is no trace, or of another version. REQUIRES: the bytes outlive this.
  static Expected<TraceReader> open(std::span<const std::byte> bytes);

  [[nodiscard]] const TraceHeader& header() const { return header_; }
  // Whether the file ends where a record does not; what is before that is told. Errc::invalid where it makes no sense.
  Expected<bool> read(TraceVisitor& visitor) const;

 private:
  TraceReader() = default;

  TraceHeader header_;
  std::span<const std::byte> chunks_;
};

}  // namespace comex
