#include "bench/peers/nbdkit.h"

#include <libnbd.h>

#include <array>
#include <thread>

#include "bench/interrupt.h"

namespace comex::bench {

namespace {

constexpr int kPollMs = 5000;

Expected<NbdHandle> open_handle(std::uint16_t port) {
  NbdHandle handle(::nbd_create());
  if (handle == nullptr || ::nbd_connect_tcp(handle.get(), "127.0.0.1", std::to_string(port).c_str()) != 0) {
    return Error{Errc::disconnected, std::string("cannot connect to nbdkit: ") + ::nbd_get_error()};
  }
  // The defaults check and clear more than a measurement wants to pay for: the peer is given its best.
  ::nbd_set_strict_mode(handle.get(), 0);
  ::nbd_set_pread_initialize(handle.get(), false);
  return handle;
}

std::uint64_t offset_of(std::uint32_t page) {
  return std::uint64_t{page} << kPageShift;
}

class AsyncNbd : public Batches {
 public:
  AsyncNbd(NbdHandle handle, Direction direction) : handle_(std::move(handle)), direction_(direction) {}

  Errc start(unsigned slot, std::uint32_t first, std::byte* local) override {
    constexpr std::size_t kBytes = std::size_t{kBatchPages} * kPageSize;
    cookies_[slot] = direction_ == Direction::read
                         ? ::nbd_aio_pread(handle_.get(), local, kBytes, offset_of(first), NBD_NULL_COMPLETION, 0)
                         : ::nbd_aio_pwrite(handle_.get(), local, kBytes, offset_of(first), NBD_NULL_COMPLETION, 0);
    return cookies_[slot] < 0 ? Errc::io : Errc::ok;
  }

  Errc finish(unsigned slot) override {
    for (;;) {
      const int done = ::nbd_aio_command_completed(handle_.get(), static_cast<std::uint64_t>(cookies_[slot]));
      if (done != 0) return done > 0 ? Errc::ok : Errc::io;
      if (::nbd_poll(handle_.get(), kPollMs) <= 0) return Errc::disconnected;
    }
  }

 private:
  NbdHandle handle_;
  Direction direction_;
  std::array<std::int64_t, kBatchesInFlight> cookies_{};
};

}  // namespace

void NbdCloser::operator()(nbd_handle* handle) const {
  ::nbd_close(handle);
}

Nbdkit::Nbdkit(Child server, std::uint16_t port, NbdHandle handle)
    : server_(std::move(server)), port_(port), handle_(std::move(handle)) {}

Expected<std::unique_ptr<Peer>> Nbdkit::create(const std::string& folder, std::uint32_t pages) {
  if (!program_exists("nbdkit")) return Error{Errc::unsupported, "nbdkit is not installed (apt install nbdkit)"};
  const std::string log = folder + "/nbdkit.log";
  constexpr int kTries = 3;  // the port can be taken between finding it free and nbdkit binding it
  for (int i = 0; i < kTries; ++i) {
    const Expected<std::uint16_t> port = free_port();
    if (!port) return port.error();
    Expected<Child> server = Child::spawn({"nbdkit", "--foreground", "--exit-with-parent", "--ipaddr", "127.0.0.1",
                                           "--port", std::to_string(*port), "memory", std::to_string(offset_of(pages))},
                                          log);
    if (!server) return server.error();
    for (const Deadline ready(Millis(5000)); server->running() && !ready.passed();) {
      if (interrupted()) return interruption();
      Expected<NbdHandle> handle = open_handle(*port);
      if (handle) return std::unique_ptr<Peer>(new Nbdkit(*std::move(server), *port, *std::move(handle)));
      std::this_thread::sleep_for(Millis(10));
    }
  }
  return Error{Errc::io, "nbdkit did not start: " + last_line(log)};
}

Errc Nbdkit::read(std::uint32_t first, std::uint32_t count, std::byte* into) {
  return ::nbd_pread(handle_.get(), into, std::size_t{count} * kPageSize, offset_of(first), 0) == 0 ? Errc::ok
                                                                                                    : Errc::io;
}

Errc Nbdkit::write(std::uint32_t first, std::uint32_t count, std::byte* from) {
  return ::nbd_pwrite(handle_.get(), from, std::size_t{count} * kPageSize, offset_of(first), 0) == 0 ? Errc::ok
                                                                                                     : Errc::io;
}

Expected<std::unique_ptr<Batches>> Nbdkit::batches(Direction direction) {
  Expected<NbdHandle> handle = open_handle(port_);
  if (!handle) return handle.error();
  return std::unique_ptr<Batches>(std::make_unique<AsyncNbd>(*std::move(handle), direction));
}

}  // namespace comex::bench
