#include "fabric/rdma_library.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/resource.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "base/units.h"

namespace comex {
namespace {

struct Loaded {
  RdmaLibrary library;
  std::string missing;
};

Loaded load() {
  Loaded loaded;
  // It brings libibverbs along. Never unloaded: providers have threads and handlers of their own.
  void* const handle = dlopen("librdmacm.so.1", RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* const why = dlerror();
    loaded.missing = why != nullptr ? why : "librdmacm.so.1";
    return loaded;
  }
#define COMEX_LOAD(member, symbol)                                                       \
  loaded.library.member = reinterpret_cast<decltype(&::symbol)>(dlsym(handle, #symbol)); \
  if (loaded.library.member == nullptr) loaded.missing = #symbol;
  COMEX_RDMA_FUNCTIONS(COMEX_LOAD)
#undef COMEX_LOAD
  // Has the providers loaded and the devices opened, once and for all. Here, for it may take a second or more, which is
  // not to be taken from the time that the first connection has.
  if (!loaded.missing.empty()) return loaded;
  if (auto* const channel = loaded.library.create_event_channel()) loaded.library.destroy_event_channel(channel);
  return loaded;
}

}  // namespace

Expected<const RdmaLibrary*> rdma_library() {
  static const Loaded loaded = load();
  if (!loaded.missing.empty()) {
    return Error{Errc::unsupported, fmt::format("rdma:// needs rdma-core ({}): install librdmacm1 and "
                                                "ibverbs-providers, or use tcp://",
                                                loaded.missing)};
  }
  return &loaded.library;
}

Error rdma_error(const std::string& what) {
  const int why = errno;
  rlimit locked{};
  ::getrlimit(RLIMIT_MEMLOCK, &locked);
  std::string hint;
  if (why == ENODEV) hint = "; no RDMA device has that address: see `comex doctor`";
  if (why == EADDRNOTAVAIL || why == ENETUNREACH || why == EHOSTUNREACH) hint = "; there is no route to it by RDMA";
  if (why == ENOMEM || why == EPERM || why == EAGAIN) {
    // What can be done about it first: a client that is refused for it hears no more than the beginning.
    const std::string limited = locked.rlim_cur == RLIM_INFINITY
                                    ? ""
                                    : fmt::format(
                                          "`ulimit -l unlimited` (or LimitMEMLOCK=infinity in the service), for "
                                          "only {} may be locked here, or ",
                                          format_size(locked.rlim_cur));
    hint = fmt::format("; {}the device has no more queue pairs or memory regions", limited);
  }
  return Error{Errc::io, fmt::format("{}: {}{}", what, std::strerror(why), hint)};
}

}  // namespace comex
