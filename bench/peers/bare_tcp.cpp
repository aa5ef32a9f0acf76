#include "bench/peers/bare_tcp.h"

#include <sys/socket.h>

#include "bench/peers/bare_tcp_far.h"

namespace comex::bench {

namespace {

Expected<Fd> open_connection(std::uint16_t port, bare::Mode mode) {
  Expected<Fd> fd = bare::connect_to_loopback(port);
  if (!fd) return fd;
  // A stream towards us begins only when the clock does; see BareStream::start.
  if (mode != bare::Mode::send_to_us && !bare::send_all(fd->get(), &mode, sizeof mode, nullptr, 0)) {
    return system_error("cannot send to the far side of the bare TCP connection");
  }
  return fd;
}

class BareStream : public Batches {
 public:
  BareStream(Fd fd, Direction direction) : fd_(std::move(fd)), direction_(direction) {}

  Errc start(unsigned, std::uint32_t, std::byte* local) override {
    if (direction_ == Direction::write) {
      return bare::send_all(fd_.get(), nullptr, 0, local, bare::kChunk) ? Errc::ok : Errc::disconnected;
    }
    if (!begun_) {
      const bare::Mode mode = bare::Mode::send_to_us;
      if (!bare::send_all(fd_.get(), &mode, sizeof mode, nullptr, 0)) return Errc::disconnected;
      begun_ = true;
    }
    local_ = local;
    return Errc::ok;
  }

  Errc finish(unsigned) override {
    if (direction_ == Direction::write) return Errc::ok;
    return bare::receive_blocking(fd_.get(), local_, bare::kChunk) ? Errc::ok : Errc::disconnected;
  }

  // What was sent may still be in socket buffers: it counts only once the far side has it.
  Errc end() override {
    if (direction_ == Direction::read) return Errc::ok;
    bare::Receipt receipt;
    ::shutdown(fd_.get(), SHUT_WR);
    const bool arrived = bare::receive_blocking(fd_.get(), reinterpret_cast<std::byte*>(&receipt), sizeof receipt);
    return arrived ? Errc::ok : Errc::disconnected;
  }

 private:
  Fd fd_;
  Direction direction_;
  bool begun_ = false;
  std::byte* local_ = nullptr;
};

}  // namespace

BareTcp::BareTcp(Child far_side, std::uint16_t port, Fd ping_pong)
    : far_side_(std::move(far_side)), port_(port), ping_pong_(std::move(ping_pong)), spin_(bare::max_spin()) {}

Expected<std::unique_ptr<Peer>> BareTcp::create() {
  Expected<TcpListener> listener = bare::listen_on_loopback();
  if (!listener) return listener.error();
  Expected<Child> child = Child::fork([&] { return bare::serve(listener->socket.get()); });
  if (!child) return child.error();
  Expected<Fd> ping_pong = open_connection(listener->port, bare::Mode::ping_pong);
  if (!ping_pong) return ping_pong.error();
  return std::unique_ptr<Peer>(new BareTcp(*std::move(child), listener->port, *std::move(ping_pong)));
}

Errc BareTcp::read(std::uint32_t, std::uint32_t count, std::byte* into) {
  const bare::Request request{0, count, {}};
  const bool moved = bare::send_all(ping_pong_.get(), &request, sizeof request, nullptr, 0) &&
                     bare::receive_spinning(ping_pong_.get(), into, std::size_t{count} * kPageSize, spin_);
  return moved ? Errc::ok : Errc::disconnected;
}

Errc BareTcp::write(std::uint32_t, std::uint32_t count, std::byte* from) {
  const bare::Request request{1, count, {}};
  bare::Receipt receipt;
  const bool moved =
      bare::send_all(ping_pong_.get(), &request, sizeof request, from, std::size_t{count} * kPageSize) &&
      bare::receive_spinning(ping_pong_.get(), reinterpret_cast<std::byte*>(&receipt), sizeof receipt, spin_);
  return moved ? Errc::ok : Errc::disconnected;
}

Expected<std::unique_ptr<Batches>> BareTcp::batches(Direction direction) {
  Expected<Fd> fd =
      open_connection(port_, direction == Direction::read ? bare::Mode::send_to_us : bare::Mode::receive_from_us);
  if (!fd) return fd.error();
  return std::unique_ptr<Batches>(std::make_unique<BareStream>(*std::move(fd), direction));
}

}  // namespace comex::bench
