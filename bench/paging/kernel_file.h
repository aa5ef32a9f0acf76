// The files through which the kernel is told and asked things: /proc, /sys, control groups.
// Thread-safe: functions without state.
#pragma once

#include <string>

#include "base/expected.h"

namespace comex::bench {

// All of it, without the newline at its end.
Expected<std::string> read_kernel_file(const std::string& path);

// In one write, as such files want it. The file must be there.
Expected<void> write_kernel_file(const std::string& path, const std::string& text);

}  // namespace comex::bench
