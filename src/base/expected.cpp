#include "base/expected.h"

#include <cerrno>
#include <cstring>

namespace comex {

std::string_view to_string(Errc code) {
  switch (code) {
    case Errc::ok: return "ok";
    case Errc::invalid: return "invalid request";
    case Errc::denied: return "denied";
    case Errc::no_memory: return "no memory";
    case Errc::fenced: return "fenced";
    case Errc::version: return "protocol version";
    case Errc::busy: return "busy";
    case Errc::timeout: return "timed out";
    case Errc::disconnected: return "disconnected";
    case Errc::io: return "system error";
    case Errc::unsupported: return "not supported";
  }
  return "unknown error";
}

Error system_error(std::string_view what) {
  char text[128];
  std::string message(what);
  message += ": ";
  message += strerror_r(errno, text, sizeof text);  // GNU's: returns the text, which may or may not be in the buffer
  return Error{Errc::io, std::move(message)};
}

}  // namespace comex
