#include "run/keeper/keeper_main.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <memory>
#include <new>
#include <optional>

#include "base/fd.h"
#include "base/units.h"
#include "node/arena.h"
#include "node/server.h"
#include "run/keeper/census.h"
#include "run/keeper/keeper_notices.h"
#include "run/keeper/keeper_server.h"
#include "run/keeper/poke.h"
#include "run/keeper/run_report.h"
#include "run/keeper/waker.h"
#include "run/room.h"

namespace comex {
namespace {

constexpr int kPriority = -10;        // processes wait for the keeper, not the other way round
constexpr Millis kLook{100};          // how often accounts of the dead are looked for
constexpr Millis kFirstFrame{2'000};  // for the pool to say whether it has memory
constexpr Millis kFirstLook{5};       // ... and how often to ask
constexpr Millis kScraps{200};        // having refused what it usually gives: to find less

Expected<Room*> make_room(const KeeperOptions& options, Fd* file) {
  Fd fd(memfd_create("comex-room", MFD_CLOEXEC));
  if (!fd || ftruncate(fd.get(), sizeof(Room)) != 0) return system_error("cannot make memory to share");
  void* const memory = mmap(nullptr, sizeof(Room), PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (memory == MAP_FAILED) return system_error("cannot map memory to share");
  auto* const room = new (memory) Room(Room::InZeros{});
  room->delivery = options.delivery;
  room->prefetch = options.prefetch;
  room->evict = options.evict;
  Waker::set_budget(room->budget, options.local >> kPageShift, 0);
  room->budget.hard.store(options.hard >> kPageShift, std::memory_order_relaxed);
  room->keeper.store(static_cast<std::uint32_t>(getpid()), std::memory_order_relaxed);
  *file = std::move(fd);
  return room;
}

// A name for a socket that leaves nothing behind, however its owner ends.
Expected<std::string> abstract_name(const char* kind) {
  std::array<std::uint64_t, 2> random{};
  if (getentropy(random.data(), sizeof random) != 0) return system_error("no random numbers");
  return fmt::format("@comex-{}-{:016x}{:016x}", kind, random[0], random[1]);
}

// A memory node for want of any other.
Expected<std::unique_ptr<Server>> start_own_node(std::uint64_t memory) {
  auto name = abstract_name("node");
  if (!name) return std::move(name).error();
  ServerConfig config;
  config.memory = memory;
  config.socket = *std::move(name);
  config.lock = false;  // it is this machine's memory either way
  config.ahead = false;
  config.huge_pages = false;  // asking for each slab whether there are some takes longer than all the rest
  config.nid = NodeId{1};
  return Server::start(config);
}

class Keeping {
 public:
  Keeping(const KeeperOptions& options, pid_t program) : options_(options), program_(program) {}

  // Where the program's processes find this. Whether the pool is there and has memory is known by then, unless it is
  // a node of our own, of which there is no doubt: connect() does the rest while the program starts.
  Expected<std::string> begin() {
    const bool own_node = options_.pool.nodes.empty();
    if (auto ready = own_node ? Arena::check_files(options_.own_memory) : connect(); !ready) {
      return std::move(ready).error();
    }
    const auto name = abstract_name("run");
    if (!name) return name.error();
    auto listener = listen_keeper(*name);
    if (!listener) return std::move(listener).error();
    listener_ = *std::move(listener);
    auto room = make_room(options_, &file_);
    if (!room) return std::move(room).error();
    room_ = *room;
    room_->old_kernel.store(options_.old_kernel, std::memory_order_relaxed);
    room_->at_once.store(options_.at_once || !can_poke(program_), std::memory_order_relaxed);
    waker_.emplace(*room_, options_.local >> kPageShift);
    census_.emplace(*room_);
    return fmt::format("{}{} /proc/{}/fd/{}", Room::kPrefix, *name, getpid(), file_.get());
  }

  // Serves the processes, who may be waiting already.
  Expected<void> serve() {
    if (!keeper_) {
      if (auto connected = connect(); !connected) return connected;
    }
    keeper_->listen(std::move(listener_));
    return {};
  }

  // Until the program, and all that came from it, is over.
  void keep(const Fd& program) {
    for (bool running = true;;) {
      pollfd wait{running ? program.get() : -1, POLLIN, 0};
      poll(&wait, 1, static_cast<int>(kLook.count()));
      if (wait.revents != 0) running = false;
      census_->look();
      const KeeperStatus status = keeper_->status();
      if (census_->living() > 0) {
        notices_.look(room_->budget, options_.local, status, *pool_);
        notices_.look_at_nodes(*pool_);
      }
      for (const MemberStatus& node : pool_->status()) urls_[node.node.value] = node_ ? "this machine" : node.url;
      if (!running && status.processes == 0 && status.leaving == 0 && census_->living() == 0) return;
    }
  }

  // Of a program that is over.
  void tell() const {
    const RunReport report{.program = options_.program,
                           .local = options_.local,
                           .local_peak = room_->budget.peak.load(std::memory_order_relaxed) << kPageShift,
                           .took = std::chrono::duration_cast<Millis>(Clock::now() - began_),
                           .nodes = urls_};
    if (options_.stats) {
      const std::string json = to_json(report, *census_);
      const bool written =
          ftruncate(options_.stats.get(), 0) == 0 &&
          pwrite(options_.stats.get(), json.data(), json.size(), 0) == static_cast<ssize_t>(json.size());
      if (!written) fmt::print(stderr, "comex: cannot write the file of --stats: {}\n", std::strerror(errno));
    }
    if (options_.summary) fmt::print(stderr, "{}", to_summary(report, *census_));
  }

 private:
  Expected<void> connect() {
    PoolConfig config = options_.pool;
    if (config.nodes.empty()) {
      auto node = start_own_node(options_.own_memory);
      if (!node) return std::move(node).error();
      node_ = *std::move(node);
      config.nodes = {*node_->unix_url()};
      config.link.secret.clear();
    }
    config.link.exportable = true;
    config.on_loss = &Notices::lost;
    if (auto usable = KeeperServer::check(config); !usable) return usable;
    auto pool = Pool::open(std::move(config));
    if (!pool) return std::move(pool).error();
    pool_ = *std::move(pool);
    if (refuses()) return full();
    auto keeper = KeeperServer::start(*pool_);
    if (!keeper) return std::move(keeper).error();
    keeper_ = *std::move(keeper);
    return {};
  }
  // Whether every node has said that it has nothing. One that says nothing for a while may do better later.
  [[nodiscard]] bool refuses() {
    Deadline deadline(kFirstFrame);
    for (bool refused = false;;) {
      const Errc answer = pool_->wait_for_frames(1, Deadline(kFirstLook));
      if (answer == Errc::no_memory && !std::exchange(refused, true)) deadline = Deadline(kScraps);
      if (answer == Errc::ok || deadline.passed()) return answer == Errc::no_memory;
    }
  }
  [[nodiscard]] Error full() const {
    return Error{Errc::no_memory, fmt::format("the pool has no memory left ({} is lent); end one of its clients "
                                              "(`comex status --json` lists them), or add a memory node",
                                              sizes_of(*pool_))};
  }

  const KeeperOptions& options_;
  const pid_t program_;
  std::unique_ptr<Server> node_;
  std::unique_ptr<Pool> pool_;
  std::unique_ptr<KeeperServer> keeper_;
  Fd listener_;
  Fd file_;
  Room* room_ = nullptr;
  std::optional<Waker> waker_;
  std::optional<Census> census_;
  Notices notices_;
  std::map<std::uint16_t, std::string> urls_;  // of all sessions so far
  const Clock::time_point began_ = Clock::now();
};

// What the keeper tells the launcher: a byte, 0 for ready, else an Errc, and text.
void report(const Fd& to, Errc code, const std::string& text) {
  const std::string message = static_cast<char>(code) + text;
  (void)!write(to.get(), message.data(), message.size());
}

// What the terminal and the shell do to the program's job is not meant for the keeper. It stays in the session, though:
// Linux schedules sessions against each other (autogroup), and has let one with a handful of threads, which all others
// were waiting for, starve for 20 seconds.
void leave_the_job() {
  setpgid(0, 0);
  for (const int each : {SIGPIPE, SIGHUP, SIGINT, SIGQUIT, SIGTSTP, SIGTTIN, SIGTTOU}) signal(each, SIG_IGN);
  setpriority(PRIO_PROCESS, 0, kPriority);  // where that is allowed
}

[[noreturn]] void run_keeper(const KeeperOptions& options, Fd to, pid_t pid, const Fd& program) {
  leave_the_job();
  prctl(PR_SET_NAME, "comex-keeper");
  {
    Keeping keeping(options, pid);
    auto variable = keeping.begin();
    if (!variable) {
      report(to, variable.error().code, variable.error().message);
      _exit(1);
    }
    report(to, Errc::ok, *variable);
    to.reset();
    // The program's input and output are not ours to hold open.
    const Fd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
    for (int fd : {0, 1}) dup2(null.get(), fd);
    if (auto serves = keeping.serve(); !serves) {
      fmt::print(stderr, "comex: the program cannot have more memory than is here: {}\n", serves.error().message);
      _exit(1);
    }
    keeping.keep(program);
    keeping.tell();
  }
  _exit(0);
}

}  // namespace

Expected<std::string> start_keeper(const KeeperOptions& options) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return system_error("cannot make a pipe");
  Fd from(ends[0]);
  Fd to(ends[1]);
  const pid_t self = getpid();
  const Fd program(static_cast<int>(syscall(SYS_pidfd_open, self, 0)));
  if (!program) return system_error("cannot watch this process");
  prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);  // where Yama asks for it: the keeper will be nobody's ancestor
  // Twice, so that the program gets no child that it does not know.
  const pid_t middle = fork();
  if (middle < 0) return system_error("cannot start the keeper");
  if (middle == 0) {
    const pid_t keeper = fork();
    if (keeper == 0) run_keeper(options, std::move(to), self, program);
    _exit(keeper > 0 ? 0 : 1);
  }
  to.reset();
  int status = 0;
  while (waitpid(middle, &status, 0) < 0 && errno == EINTR) {
  }
  std::string answer;
  std::array<char, 4096> buffer{};
  for (;;) {
    const ssize_t got = read(from.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    answer.append(buffer.data(), static_cast<std::size_t>(got));
  }
  if (answer.empty()) return Error{Errc::io, "the keeper ended before it was ready"};
  const auto code = static_cast<Errc>(answer.front());
  if (code != Errc::ok) return Error{code, answer.substr(1)};
  return answer.substr(1);
}

}  // namespace comex
