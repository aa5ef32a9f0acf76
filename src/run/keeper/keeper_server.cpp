// The loop, and the connections.
#include "run/keeper/keeper_server.h"

#include <fmt/format.h>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/file_limit.h"

namespace comex {
namespace {

namespace kw = keeper_wire;

// What an event is about: in the upper byte of its tag; below that a number.
enum Kind : std::uint32_t { kWake, kListener, kSocket, kPid, kLane };
constexpr unsigned kKindShift = 56;

constexpr int kMessagesPerTurn = 32;
constexpr Millis kIdleLook{500};

}  // namespace

Expected<void> KeeperServer::check(const PoolConfig& pool) {
  for (const Url& url : pool.nodes) {
    if (url.scheme != Url::Scheme::tls) continue;
    return Error{Errc::unsupported,
                 fmt::format("{} cannot be used to run programs: TLS connections cannot be handed to them; use tcp:// "
                             "or, on this machine, unix://",
                             url.text())};
  }
  return {};
}

Expected<std::unique_ptr<KeeperServer>> KeeperServer::start(Pool& pool, KeeperConfig config) {
  if (auto usable = check(pool.config()); !usable) return std::move(usable).error();
  if (!pool.config().link.exportable) return Error{Errc::invalid, "the pool's links are not exportable"};
  if (pool.config().max_ids > kw::kDisk.value) return Error{Errc::invalid, "the pool may use too many node ids"};
  const Code code = config.code;
  if (!code.valid() || (code.coded() && (pool.config().copies != code.nodes() || !config.backup.folder.empty()))) {
    return Error{Errc::invalid, "the pool is for another number of nodes than the code, or there is a backup as well"};
  }
  config.lanes = std::clamp<unsigned>(config.lanes, 1, kw::kMaxLanes);
  raise_file_limit();
  std::unique_ptr<KeeperServer> server(new KeeperServer(pool, std::move(config)));
  if (!server->epoll_ || !server->wake_) return system_error("cannot watch descriptors");
  auto store = ChunkStore::make(
      pool.config().copies, [raw = server.get()](const Run& run) { raw->give_back_place(run); }, code);
  if (!store) return std::move(store).error();
  server->store_ = *std::move(store);
  server->watch(server->wake_.get(), kWake, 0);
  if (!server->config_.backup.folder.empty()) {
    auto backup = Backup::open(server->config_.backup, pool, server->wake_.get());
    if (!backup) return std::move(backup).error();
    server->backup_ = *std::move(backup);
  }
  const BackupFile* const disk = server->backup_ ? &server->backup_->file() : nullptr;
  const KeeperConfig& keeping = server->config_;
  server->copier_ = std::make_unique<ChunkCopier>(
      pool, keeping.straight ? std::make_unique<StraightMover>(pool, keeping.pulls) : nullptr, disk, code,
      keeping.mend_rate, server->wake_.get());
  server->opener_ = std::make_unique<LaneOpener>(pool, server->wake_.get());
  server->look_at_pool();
  pool.watch([raw = server.get()] {
    raw->pool_changed_.store(true, std::memory_order_release);
    raw->wake();
  });
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  server->thread_ = std::thread([raw = server.get()] { raw->run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return server;
}

KeeperServer::KeeperServer(Pool& pool, KeeperConfig config)
    : pool_(pool),
      config_(std::move(config)),
      free_([this](const Run& homes) {
        if (backup_) backup_->forget(homes);
        store_->give_back(homes);
      }),
      buffer_(kw::kMaxMessage),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  book_.open(kHome, ChunkMap::kFrames, kChunkOrder);
}

KeeperServer::~KeeperServer() {
  pool_.watch(nullptr);
  stopping_ = true;
  wake();
  if (thread_.joinable()) thread_.join();
}

void KeeperServer::wake() noexcept {
  (void)::eventfd_write(wake_.get(), 1);
}

void KeeperServer::adopt(Fd socket) {
  {
    const std::lock_guard lock(mutex_);
    adopted_.push_back(std::move(socket));
  }
  wake();
}

void KeeperServer::listen(Fd listener) {
  {
    const std::lock_guard lock(mutex_);
    to_listen_.push_back(std::move(listener));
  }
  wake();
}

KeeperStatus KeeperServer::status() const {
  const std::lock_guard lock(mutex_);
  return status_;
}

void KeeperServer::run() {
  std::array<epoll_event, 64> events;
  while (!stopping_) {
    const int count = ::epoll_wait(epoll_.get(), events.data(), events.size(), pause());
    for (int i = 0; i < count; ++i) on_event(events[static_cast<std::size_t>(i)].data.u64);
    take_in_new();
    if (pool_changed_.exchange(false, std::memory_order_acquire) || Clock::now() >= looked_at_ + kIdleLook) {
      look_at_pool();
    }
    take_lanes();
    retry_lanes();
    if (backup_) back_up();
    serve_wants();
    mend();
    const bool last_gone = leave_all();
    for (const auto& [number, process] : processes_) watch_room(*process);
    mind_dead_homes();
    publish();
    if (last_gone && config_.on_last_gone) config_.on_last_gone();
  }
  kw::Closing closing;
  closing.reason.assign("the keeper was stopped");
  for (const auto& [number, process] : processes_) (void)process->send(kw::Type::closing, closing);
}

// How long nothing can happen but by an event, in ms.
int KeeperServer::pause() const {
  Clock::time_point until = Clock::now() + kIdleLook;
  for (const auto& [number, process] : processes_) {
    if (process->wanted > 0) until = std::min(until, Clock::now() + config_.look_again);
    if (!process->talking()) until = std::min(until, process->look_at);
  }
  // In the middle of it, the disk's thread wakes us.
  if (backup_ && next_backup_ == 0 && !processes_.empty()) until = std::min(until, back_up_at_);
  if (!mending_.empty() || !left_.empty()) until = std::min(until, Clock::now() + config_.look_again);
  if (!thin_.empty() || !leaving_.empty())
    until = std::min(until, std::max(mend_at_, Clock::now() + config_.look_again));
  return Deadline::at(until).remaining_ms();
}

// --- who comes ---

void KeeperServer::watch(int fd, std::uint32_t kind, std::uint64_t number) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = std::uint64_t{kind} << kKindShift | number;
  (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event);
}

void KeeperServer::watch_lane(int lane) {
  watch(lane, kLane, 0);
}

// While there is something unsent, room in the socket is an event too.
void KeeperServer::watch_room(Process& process) {
  if (!process.talking() || process.has_unsent() == process.watching_room) return;
  process.watching_room = process.has_unsent();
  epoll_event event{};
  event.events = EPOLLIN | (process.watching_room ? EPOLLOUT : 0U);
  event.data.u64 = std::uint64_t{kSocket} << kKindShift | process.number();
  (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, process.socket(), &event);
}

void KeeperServer::take_in_new() {
  std::vector<Fd> adopted;
  std::vector<Fd> listeners;
  {
    const std::lock_guard lock(mutex_);
    adopted.swap(adopted_);
    listeners.swap(to_listen_);
  }
  for (Fd& socket : adopted) (void)add(std::move(socket));
  for (Fd& listener : listeners) {
    watch(listener.get(), kListener, listeners_.size());
    listeners_.push_back(std::move(listener));
  }
}

KeeperServer::Process* KeeperServer::add(Fd socket) {
  if (processes_.size() >= config_.processes) {
    spdlog::error("a process was refused: there are {} already", processes_.size());
    return nullptr;
  }
  const int on = 1;
  (void)::setsockopt(socket.get(), SOL_SOCKET, SO_PASSCRED, &on, sizeof on);
  const std::uint64_t number = ++last_number_;
  watch(socket.get(), kSocket, number);
  return processes_.emplace(number, std::make_unique<Process>(number, std::move(socket))).first->second.get();
}

void KeeperServer::accept_from(int listener) {
  Fd socket(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket) return;
  ucred who{};
  socklen_t size = sizeof who;
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &who, &size) != 0) return;
  const bool same = who.uid == ::geteuid() || who.uid == 0;
  if (!same && !(config_.is_known && config_.is_known(who.pid))) {
    spdlog::warn("process {} of user {} was refused: the program belongs to user {}", who.pid, who.uid, ::geteuid());
    return;
  }
  (void)add(std::move(socket));
}

// --- what they say ---

void KeeperServer::on_event(std::uint64_t tag) {
  const auto kind = static_cast<Kind>(tag >> kKindShift);
  const std::uint64_t number = tag & ((std::uint64_t{1} << kKindShift) - 1);
  if (kind == kWake) {
    eventfd_t count = 0;
    (void)::eventfd_read(wake_.get(), &count);
    return;
  }
  if (kind == kListener) return accept_from(listeners_[number].get());
  const auto found = processes_.find(number);
  if (kind == kLane || found == processes_.end()) return;
  Process& process = *found->second;
  if (kind == kPid) {
    process.pidfd.reset();
    receive(process);  // its last words are not lost
    end(process);
  } else if (!process.flush()) {
    end(process);
  } else {
    receive(process);
  }
}

void KeeperServer::receive(Process& process) {
  ReceivedFds fds;
  for (int i = 0; i < kMessagesPerTurn && process.talking(); ++i) {
    const Received got = receive_packet(process.socket(), buffer_, fds);
    if (got.error == Errc::disconnected) return end(process);
    if (got.error != Errc::ok) return broke_rules(process, "a message is too long");
    if (got.bytes == 0) return;
    if (!serve(process, std::span(buffer_).first(got.bytes), got)) return;
  }
}

// False if the connection is over.
bool KeeperServer::serve(Process& process, std::span<const std::byte> message, const Received& from) {
  kw::Head head;
  if (message.size() < sizeof head) return broke_rules(process, "a message is too short"), false;
  std::memcpy(&head, message.data(), sizeof head);
  kw::Hello hello;
  kw::Want want;
  kw::NodeRef node;
  kw::Seal seal;
  if (process.greeted != (head.type != kw::Type::hello)) return broke_rules(process, "hello comes first, once"), false;
  switch (head.type) {
    case kw::Type::hello:
      if (kw::read_body(message, hello)) return greet(process, hello, from);
      break;
    case kw::Type::want:
      if (!kw::read_body(message, want) || want.frames == 0 || want.frames > kw::kMaxWant) break;
      if (want.frames % config_.code.data != 0) break;
      process.wanted += want.frames;
      process.told_refused = false;
      if (process.wanted <= kw::kMaxWant) return true;
      break;
    case kw::Type::give_back: return take_back(process, message);
    case kw::Type::heir:
      if (message.size() == sizeof head) return make_heir(process);
      break;
    case kw::Type::lanes:
      if (kw::read_body(message, node)) return lanes_broke(process, node.node);
      break;
    case kw::Type::sealed:
      if (!kw::read_body(message, seal) || seal.round > seal_round_) break;
      process.sealed = std::max(process.sealed, seal.round);
      return true;
    default: break;
  }
  return broke_rules(process, "a message makes no sense"), false;
}

bool KeeperServer::greet(Process& process, const kw::Hello& hello, const Received& from) {
  // The kernel's word if there is one; the process's own only decides when to look for its end.
  process.pid = from.pid > 0 ? from.pid : static_cast<pid_t>(hello.pid);
  if (hello.version != kw::kVersion) {
    return broke_rules(process, "it comes from another version of comex than its keeper"), false;
  }
  process.greeted = true;
  process.pidfd = Fd(static_cast<int>(::syscall(SYS_pidfd_open, process.pid, 0)));
  if (process.pidfd) watch(process.pidfd.get(), kPid, process.number());
  std::vector<Fd> fds;
  if (!process.lifeline) {
    auto line = Lifeline::make();
    if (!line) {
      spdlog::error("{} was refused: {}", process.name(), line.error().message);
      end(process);
      return false;
    }
    process.lifeline = *std::move(line);
    fds.push_back(process.lifeline->take_end());
    fds.push_back(store_->file());
    if (backup_) fds.push_back(backup_->map_file());
  }
  const Code code = config_.code;
  const kw::Welcome welcome{kw::kVersion, code.coded() ? 1 : pool_.config().copies, code, relays()};
  const bool heir = fds.empty();
  bool sent = process.send(kw::Type::welcome, welcome, std::move(fds)) && (heir || tell_disk(process));
  if (sent && tidy_) sent = process.send(kw::Type::tidy, kw::Tidy{1});
  if (!sent) end(process);
  return sent;
}

bool KeeperServer::make_heir(Process& process) {
  std::vector<Fd> fds;
  int ends[2] = {-1, -1};
  auto line = Lifeline::make();
  if (line && ::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0) {
    fds.emplace_back(ends[1]);
    if (Process* const heir = add(Fd(ends[0]))) {
      heir->lifeline = *std::move(line);
      fds.push_back(heir->lifeline->take_end());
      inherit(process, *heir);
    } else {
      fds.clear();
    }
  }
  if (fds.empty()) spdlog::warn("{} cannot fork with its memory: too many processes or open files", process.name());
  if (process.send(kw::Type::heir, std::move(fds))) return true;
  end(process);
  return false;
}

void KeeperServer::broke_rules(Process& process, const char* how) {
  spdlog::warn("{} is not served any more: {}", process.name(), how);
  kw::Closing closing;
  closing.reason.assign(how);
  (void)process.send(kw::Type::closing, closing);
  end(process);
}

void KeeperServer::end(Process& process) {
  if (!process.talking()) return;
  process.close();
  process.pidfd.reset();
  process.wanted = 0;
  process.look_at = Clock::now();
}

}  // namespace comex
