#include "checker/echo.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

namespace checker {

Echo::Echo(const Settings& settings) : settings_(settings) {
  if (pipe(there_.data()) != 0 || pipe(back_.data()) != 0) wrong(settings_, "pipe: %s", std::strerror(errno));
  thread_ = std::thread([this] { serve(); });
}

Echo::~Echo() {
  close(there_[1]);
  thread_.join();
  for (const int descriptor : {there_[0], back_[0], back_[1]}) close(descriptor);
}

void Echo::serve() const {
  std::vector<std::byte> buffer(kMost);
  for (;;) {
    const ssize_t bytes = read(there_[0], buffer.data(), buffer.size());
    if (bytes == 0) return;
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0) wrong(settings_, "read from a pipe: %s", std::strerror(errno));
    usleep(static_cast<unsigned>(bytes) % 1024);
    send(back_[1], buffer.data(), static_cast<std::size_t>(bytes));
  }
}

void Echo::send(int descriptor, const std::byte* from, std::size_t bytes) const {
  while (bytes > 0) {
    const ssize_t sent = ::write(descriptor, from, bytes);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0)
      wrong(settings_, "write of %zu bytes at %p: %s", bytes, static_cast<const void*>(from), std::strerror(errno));
    from += sent;
    bytes -= static_cast<std::size_t>(sent);
  }
}

void Echo::receive(int descriptor, std::byte* to, std::size_t bytes, std::size_t piece) const {
  while (bytes > 0) {
    const ssize_t got = read(descriptor, to, std::min(bytes, piece));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) wrong(settings_, "read of %zu bytes to %p: %s", bytes, static_cast<void*>(to), std::strerror(errno));
    to += got;
    bytes -= static_cast<std::size_t>(got);
  }
}

void Echo::copy(const std::byte* from, std::byte* to, std::size_t bytes, std::size_t piece) {
  send(there_[1], from, bytes);
  receive(back_[0], to, bytes, piece);
}

void Echo::copy_alone(const std::byte* from, std::byte* to, std::size_t bytes) {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) wrong(settings_, "pipe: %s", std::strerror(errno));
  send(ends[1], from, bytes);
  receive(ends[0], to, bytes, bytes);
  close(ends[0]);
  close(ends[1]);
}

}  // namespace checker
