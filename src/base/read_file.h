// Thread-safe. Fault path: no, it allocates.
#pragma once

#include <optional>
#include <string>

namespace comex {

// All of a file, meant for small ones such as those of /proc. Nothing if it cannot be opened, or not be read to its
// end: what it tells of may be gone in between. (Streams of the C++ library throw then, or seem to have read it all.)
std::optional<std::string> read_file(const std::string& path);

}  // namespace comex
