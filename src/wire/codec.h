// Little-endian encoding into and out of byte buffers. Reader never reads past its end and never throws: after the
// first short read everything reads as zero and ok() is false.
#pragma once

#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace comex::wire {

static_assert(std::endian::native == std::endian::little, "the wire format is little-endian, and so must the host be");

using Bytes = std::vector<std::byte>;
using ByteView = std::span<const std::byte>;

class Writer {
 public:
  template <std::unsigned_integral T>
  Writer& put(T value) {
    const auto at = bytes_.size();
    bytes_.resize(at + sizeof value);
    std::memcpy(bytes_.data() + at, &value, sizeof value);
    return *this;
  }
  Writer& put(ByteView raw) {
    bytes_.insert(bytes_.end(), raw.begin(), raw.end());
    return *this;
  }
  // A string of at most 65535 bytes, its length first.
  Writer& put(std::string_view text) {
    text = text.substr(0, UINT16_MAX);
    put(static_cast<std::uint16_t>(text.size()));
    return put(std::as_bytes(std::span(text)));
  }
  Bytes take() { return std::move(bytes_); }

 private:
  Bytes bytes_;
};

class Reader {
 public:
  explicit Reader(ByteView bytes) : rest_(bytes) {}

  template <std::unsigned_integral T>
  T get() {
    T value{};
    copy(&value, sizeof value);
    return value;
  }
  template <std::size_t N>
  std::array<std::byte, N> get_array() {
    std::array<std::byte, N> value{};
    copy(value.data(), N);
    return value;
  }
  std::string get_string() {
    std::string text(std::min<std::size_t>(get<std::uint16_t>(), rest_.size() + 1), '\0');
    copy(text.data(), text.size());
    return ok_ ? text : std::string();
  }
  [[nodiscard]] std::size_t left() const { return rest_.size(); }
  [[nodiscard]] bool ok() const { return ok_; }
  // Everything was there, and nothing was left over.
  [[nodiscard]] bool finished() const { return ok_ && rest_.empty(); }

 private:
  void copy(void* to, std::size_t size) {
    if (!ok_ || rest_.size() < size) {
      ok_ = false;
      return;
    }
    if (size > 0) std::memcpy(to, rest_.data(), size);
    rest_ = rest_.subspan(size);
  }

  ByteView rest_;
  bool ok_ = true;
};

}  // namespace comex::wire
