#include "node/server.h"

#include <fmt/format.h>
#include <netdb.h>
#include <spdlog/spdlog.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <mutex>
#include <thread>
#include <vector>

#include "base/units.h"
#include "fabric/address.h"
#include "fabric/socket.h"
#include "fabric/tls_stream.h"
#include "fabric/url.h"
#include "node/arena.h"
#include "node/context.h"
#include "node/control_peer.h"
#include "node/host_memory.h"
#include "node/ledger.h"
#include "node/loop.h"
#include "node/rdma_door.h"

namespace comex {
namespace {

constexpr unsigned kMaxLaneThreads = 4;
// Connections on one listener that have not proved themselves yet: beyond these, a newcomer takes the place of the one
// that has kept us waiting longest. So a crowd that says nothing keeps nobody out.
constexpr unsigned kMaxGreeting = 256;
// Withheld slabs replaced between two looks at the sockets: a millisecond or two.
constexpr std::size_t kRenewAtOnce = 4;

// Descriptors kept for what is not a connection: slabs being replaced, memory being sent, the runtime's own.
constexpr std::size_t kReservedDescriptors = 32;
// A client on the Unix socket takes its connection and its fence page.
constexpr std::size_t kDescriptorsPerClient = 2;

// How many more files this process may open, less the reserve.
std::size_t spare_descriptors() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return SIZE_MAX;
  std::size_t used = kReservedDescriptors;
  std::error_code failure;
  for (std::filesystem::directory_iterator at("/proc/self/fd", failure), end; !failure && at != end;) {
    ++used;
    at.increment(failure);
  }
  return limit.rlim_cur > used ? limit.rlim_cur - used : 1;
}

std::uint64_t random_id() {
  std::uint64_t id = 0;
  if (getrandom(&id, sizeof id, 0) != sizeof id) std::abort();
  return id;
}

std::string peer_text(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  char host[NI_MAXHOST] = "";
  char port[NI_MAXSERV] = "";
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0) {
    getnameinfo(reinterpret_cast<sockaddr*>(&address), size, host, sizeof host, port, sizeof port,
                NI_NUMERICHOST | NI_NUMERICSERV);
  }
  return fmt::format("{}:{}", host, port);
}

}  // namespace

class Server::Impl {
 public:
  explicit Impl(const ServerConfig& config) : config_(config) {}
  ~Impl();

  Expected<void> start();
  Expected<void> open_listeners();
  Expected<void> start_loops();

  ServerConfig config_;
  std::unique_ptr<Arena> arena_;
  std::unique_ptr<Ledger> ledger_;
  std::unique_ptr<NodeContext> context_;
  std::unique_ptr<Puller> puller_;  // null: pages do not go from node to node
  SslContext tls_;
  TcpListener tcp_;
  std::unique_ptr<RdmaDoor> door_;
  UnixListener unix_;
  // Lane loops outlive the control loop, which hands peers to them.
  std::vector<std::unique_ptr<Loop>> lanes_;
  std::unique_ptr<Loop> control_;
  std::size_t next_lane_ = 0;
  std::size_t connection_limit_ = 0;
  Clock::time_point next_lease_check_ = Clock::now();

  void limit(LendLimit why, std::uint32_t frames);

 private:
  void accept_all(Loop& control, int listener, bool local);
  Expected<std::unique_ptr<Stream>> wrap(Fd socket, bool local);
  void serve_door(Loop& control);
  void place_lane(Loop& control, std::unique_ptr<Peer> peer);
  [[nodiscard]] Patience patience() const { return {config_.handshake_timeout, config_.stall_timeout}; }
  bool keep_house();

  std::mutex limits_mutex_;  // guards limits_
  std::array<std::uint32_t, kLendLimits> limits_{UINT32_MAX, UINT32_MAX, UINT32_MAX};
  [[nodiscard]] Millis tick() const;
  static bool make_room(Loop& control, bool local);
  [[nodiscard]] bool full(const Loop& control) const;
};

Server::Impl::~Impl() {
  if (ledger_) ledger_->end_all();  // those who map our memory see it by their fences, before they hear of it
  control_.reset();
  if (ledger_) ledger_->end_all();  // those who have come in between
  lanes_.clear();
  puller_.reset();
  if (unix_.socket) unix_.remove();
}

Expected<void> Server::Impl::start() {
  if (config_.listen.empty() && config_.socket.empty() && config_.rdma.empty()) {
    return Error{Errc::invalid, "nowhere to listen: give --listen, --rdma, --socket or several of them"};
  }
  const auto host = read_host_memory();
  if (!host) return host.error();
  if (auto fits = check_fits(config_.memory, *host); !fits) return fits;
  // Listeners first: a wrong address should be heard of before gigabytes are locked.
  if (auto opened = open_listeners(); !opened) return opened;
  auto arena = Arena::create({.bytes = config_.memory,
                              .lock = config_.lock,
                              .ahead = config_.ahead,
                              .huge_pages = config_.huge_pages,
                              .progress = config_.progress});
  if (!arena) return std::move(arena).error();
  arena_ = *std::move(arena);
  ledger_ = std::make_unique<Ledger>(*arena_, LedgerConfig{.lease = config_.lease, .max_clients = config_.max_clients});
  context_.reset(new NodeContext{.arena = *arena_,
                                 .ledger = *ledger_,
                                 .secret = config_.secret,
                                 .nid = config_.nid,
                                 .lease = config_.lease,
                                 .boot_id = random_id(),
                                 .lend = [this](std::uint32_t frames) { limit(LendLimit::operator_word, frames); },
                                 .version = config_.version,
                                 .tls = tls_ != nullptr});
  if (tcp_.socket && !tls_) {
    puller_ = std::make_unique<Puller>(*arena_, context_->pages_pulled);
    context_->puller = puller_.get();
  }
  return start_loops();
}

Expected<void> Server::Impl::open_listeners() {
  if (!config_.listen.empty()) {
    auto listener = listen_tcp(config_.listen);
    if (!listener) return std::move(listener).error();
    tcp_ = *std::move(listener);
    if (!tcp_.loopback && config_.secret.empty() && config_.tls.client_ca.empty()) {
      return Error{Errc::invalid, fmt::format("listening on {} needs --secret-file (or --tls-client-ca), or anybody "
                                              "could use this memory; or listen on 127.0.0.1",
                                              config_.listen)};
    }
    if (!config_.tls.certificate.empty()) {
      auto context = make_server_context(config_.tls);
      if (!context) return std::move(context).error();
      tls_ = *std::move(context);
    }
  }
  if (!config_.rdma.empty()) {
    auto door = RdmaDoor::open(config_.rdma);
    if (!door) return std::move(door).error();
    door_ = *std::move(door);
  }
  if (!config_.socket.empty()) {
    auto listener = listen_unix(config_.socket, config_.socket_mode);
    if (!listener) return std::move(listener).error();
    unix_ = *std::move(listener);
  }
  return {};
}

Millis Server::Impl::tick() const {
  return std::clamp(config_.lease / 4, Millis(10), Millis(500));
}

Expected<void> Server::Impl::start_loops() {
  const unsigned cores = std::max(1U, std::thread::hardware_concurrency());
  const unsigned threads = config_.lane_threads > 0 ? config_.lane_threads : std::min(cores, kMaxLaneThreads);
  for (unsigned i = 0; tcp_.socket && i < threads; ++i) {
    auto lane = Loop::start(config_.max_spin, tick(), {});
    if (!lane) return std::move(lane).error();
    lanes_.push_back(*std::move(lane));
  }
  connection_limit_ = std::min<std::size_t>(config_.max_connections, spare_descriptors() / kDescriptorsPerClient);
  Loop::Hooks hooks;
  if (tcp_.socket)
    hooks.watched.emplace_back(tcp_.socket.get(), [this](Loop& l) { accept_all(l, tcp_.socket.get(), false); });
  if (door_) hooks.watched.emplace_back(door_->fd(), [this](Loop& l) { serve_door(l); });
  if (unix_.socket) {
    hooks.watched.emplace_back(unix_.socket.get(), [this](Loop& l) { accept_all(l, unix_.socket.get(), true); });
  }
  hooks.hand_over = [this](Loop& loop, std::unique_ptr<Peer> peer) { place_lane(loop, std::move(peer)); };
  hooks.tick = [this] { return keep_house(); };
  auto control = Loop::start(Nanos(0), tick(), std::move(hooks));
  if (!control) return std::move(control).error();
  control_ = *std::move(control);
  return {};
}

// A stranger who has kept us waiting gives way: one from the same door first.
bool Server::Impl::make_room(Loop& control, bool local) {
  return control.drop_longest([&](const Peer& peer) { return peer.greeting_since(local); }) ||
         control.drop_longest([&](const Peer& peer) { return peer.greeting_since(!local); });
}

bool Server::Impl::full(const Loop& control) const {
  std::size_t count = control.peers();
  for (const auto& lane : lanes_) count += lane->peers();
  return count >= connection_limit_;
}

// Runs on the control loop, which may be running before control_ is set: hence the parameter.
void Server::Impl::accept_all(Loop& control, int listener, bool local) {
  for (;;) {
    Fd socket(accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket) return;
    Arrival arrival;
    arrival.medium = local ? Medium::shm : Medium::tcp;
    const bool crowded = context_->greeting_on(arrival.medium).load() >= kMaxGreeting;
    if ((crowded || full(control)) && !make_room(control, local)) continue;  // closes it
    if (local) {
      ucred peer{};
      socklen_t size = sizeof peer;
      if (getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) continue;
      // A socket that is not in the file system has no permissions: it is for this user, and root.
      if (unix_.inode == 0 && peer.uid != geteuid() && peer.uid != 0) continue;
      arrival.uid = peer.uid;
      arrival.peer = fmt::format("uid {} pid {}", peer.uid, peer.pid);
    } else {
      tune_tcp(socket.get(), config_.stall_timeout);
      arrival.peer = peer_text(socket.get());
      const auto address = peer_address(socket.get());
      arrival.loopback = address && is_loopback(*address);
    }
    auto stream = wrap(std::move(socket), local);
    if (!stream) continue;
    control.admit(std::make_unique<ControlPeer>(*std::move(stream), *context_, std::move(arrival), patience()));
  }
}

void Server::Impl::serve_door(Loop& control) {
  door_->serve(*ledger_, [&](std::unique_ptr<Stream> stream, Arrival arrival) {
    const bool crowded = context_->greeting_on(arrival.medium).load() >= kMaxGreeting;
    if ((crowded || full(control)) && !make_room(control, false)) return;
    control.admit(std::make_unique<ControlPeer>(std::move(stream), *context_, std::move(arrival), patience()));
  });
}

Expected<std::unique_ptr<Stream>> Server::Impl::wrap(Fd socket, bool local) {
  if (local || !tls_) return std::unique_ptr<Stream>(std::make_unique<SocketStream>(std::move(socket)));
  auto stream = TlsStream::server(std::move(socket), tls_.get());
  if (!stream) return std::move(stream).error();
  return std::unique_ptr<Stream>(*std::move(stream));
}

void Server::Impl::place_lane(Loop& control, std::unique_ptr<Peer> peer) {
  auto& from = static_cast<ControlPeer&>(*peer);
  const bool stays = from.stays();
  auto next = from.become();
  if (stays) return control.admit(std::move(next));  // there is next to nothing to do on it
  lanes_[next_lane_++ % lanes_.size()]->adopt(std::move(next));
}

bool Server::Impl::keep_house() {
  const auto now = Clock::now();
  if (now >= next_lease_check_) {
    next_lease_check_ = now + tick();
    if (const auto ended = ledger_->end_silent(now); ended > 0) {
      spdlog::warn("{} client(s) fell silent for longer than the lease of {} ms; their frames are free again", ended,
                   config_.lease.count());
    }
  }
  const bool adjusting = ledger_->adjust();
  return ledger_->renew_some(kRenewAtOnce) || adjusting;
}

void Server::Impl::limit(LendLimit why, std::uint32_t frames) {
  const std::lock_guard lock(limits_mutex_);
  std::uint32_t& limit = limits_[static_cast<std::size_t>(why)];
  if (limit == frames) return;
  limit = frames;
  const std::uint32_t least = std::min(*std::min_element(limits_.begin(), limits_.end()), arena_->frames());
  spdlog::info("lending at most {} from now on", format_size(std::uint64_t{least} << kPageShift));
  ledger_->aim(least);
}

Expected<std::unique_ptr<Server>> Server::start(const ServerConfig& config) {
  auto impl = std::make_unique<Impl>(config);
  if (auto started = impl->start(); !started) return std::move(started).error();
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Server::~Server() = default;

std::optional<Url> Server::tcp_url() const {
  if (!impl_->tcp_.socket) return std::nullopt;
  const auto where = parse_host_port(impl_->config_.listen);
  Url url;
  url.scheme = impl_->tls_ ? Url::Scheme::tls : Url::Scheme::tcp;
  url.host = where && !where->host.empty() ? where->host : "0.0.0.0";
  url.port = impl_->tcp_.port;
  return url;
}

std::optional<Url> Server::rdma_url() const {
  if (!impl_->door_) return std::nullopt;
  const auto where = parse_host_port(impl_->config_.rdma);
  Url url;
  url.scheme = Url::Scheme::rdma;
  url.host = where && !where->host.empty() ? where->host : "0.0.0.0";
  url.port = impl_->door_->port();
  return url;
}

std::optional<Url> Server::unix_url() const {
  if (!impl_->unix_.socket) return std::nullopt;
  Url url;
  url.scheme = Url::Scheme::unix_socket;
  url.path = impl_->config_.socket;
  return url;
}

wire::StatusReply Server::status() const {
  return impl_->context_->status();
}

void Server::limit(LendLimit why, std::uint64_t bytes) {
  impl_->limit(why, static_cast<std::uint32_t>(std::min<std::uint64_t>(bytes >> kPageShift, UINT32_MAX)));
}

}  // namespace comex
