// A file descriptor with an owner.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <utility>

namespace comex {

class Fd {
 public:
  constexpr Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) reset(std::exchange(other.fd_, -1));
    return *this;
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  ~Fd() { reset(); }

  [[nodiscard]] int get() const { return fd_; }
  [[nodiscard]] explicit operator bool() const { return fd_ >= 0; }
  // Another descriptor of the same open file; empty if there are too many.
  [[nodiscard]] Fd duplicate() const { return Fd(::fcntl(fd_, F_DUPFD_CLOEXEC, 0)); }
  void reset(int fd = -1) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = fd;
  }

 private:
  int fd_ = -1;
};

}  // namespace comex
