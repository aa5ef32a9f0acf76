// redis-server with more data than it may keep, and a client that asks for keys, few of them often (Zipf). The client
// is a process of its own beside the paging system; the server is what is paged. Not thread-safe.
#pragma once

#include "bench/prefetch/paged_program.h"

namespace comex::bench {

// With so many bytes of keys and values, about; its seconds are those of asking. Works in `folder`, which must outlive
// it. REQUIRES: redis-server is installed, and this process has one thread whenever run() is called.
std::unique_ptr<PagedProgram> make_redis_program(std::uint64_t bytes, const std::string& folder);

}  // namespace comex::bench
