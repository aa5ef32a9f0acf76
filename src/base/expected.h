// Errors are values. Expected<T> is a T or an Error; Error carries a code for programs and one line for people.
//
// Errc alone travels where nothing may be allocated (the fault path, the wire); Error is for everywhere else.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace comex {

// The values travel in the status field of replies (docs/protocol.md): never renumber.
enum class Errc : std::uint16_t {
  ok = 0,
  invalid = 1,       // the request makes no sense: bad usage, malformed message, value out of range
  denied = 2,        // not authenticated, or the frame is not held by this client
  no_memory = 3,     // no extent large enough: the plain "no"
  fenced = 4,        // the client's lease ended; all its frames on this node are gone
  version = 5,       // no common protocol version
  busy = 6,          // a limit of the peer is reached; try again later
  timeout = 7,       // nothing came back in time
  disconnected = 8,  // the peer closed the link or vanished
  io = 9,            // the operating system refused something
  unsupported = 10,  // known, but not available here
};

std::string_view to_string(Errc code);

struct Error {
  Errc code = Errc::io;
  std::string message;  // one line: what is wrong and, where it can be said, what to do
};

// "what: strerror(errno)" as an Error of code io.
Error system_error(std::string_view what);

template <typename T>
class [[nodiscard]] Expected {
 public:
  Expected(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Expected(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  [[nodiscard]] bool has_value() const { return state_.index() == 0; }
  explicit operator bool() const { return has_value(); }

  // REQUIRES: has_value().
  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  T&& value() && { return std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  // REQUIRES: !has_value().
  [[nodiscard]] const Error& error() const& { return std::get<1>(state_); }
  Error&& error() && { return std::get<1>(std::move(state_)); }

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Expected<void> {
 public:
  Expected() = default;
  Expected(Error error) : error_(std::move(error)) {}

  [[nodiscard]] bool has_value() const { return !error_; }
  explicit operator bool() const { return has_value(); }

  // REQUIRES: !has_value().
  [[nodiscard]] const Error& error() const& { return *error_; }
  Error&& error() && { return *std::move(error_); }

 private:
  std::optional<Error> error_;
};

}  // namespace comex
