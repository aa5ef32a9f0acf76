// The keeper as a process: what `comex run` starts beside the program, and what ends when the program has.
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <span>

#include "base/fd.h"
#include "base/log.h"
#include "base/units.h"
#include "node/arena.h"
#include "node/server.h"
#include "pool/code_text.h"
#include "run/keeper/birthright.h"
#include "run/keeper/census.h"
#include "run/keeper/keeper_listen.h"
#include "run/keeper/keeper_notices.h"
#include "run/keeper/keeper_options.h"
#include "run/keeper/keeper_server.h"
#include "run/keeper/profiler.h"
#include "run/keeper/progress_writer.h"
#include "run/keeper/run_report.h"
#include "run/keeper/tracer.h"
#include "run/keeper/waker.h"
#include "run/room.h"

namespace comex {
namespace {

constexpr Millis kFirstFrame{2'000};  // for the pool to say whether it has memory
constexpr Millis kFirstLook{5};       // ... and how often to ask
constexpr Millis kScraps{200};        // having refused what it usually gives: to find less

void forget_event(const Fd& event) {
  eventfd_t count = 0;
  (void)eventfd_read(event.get(), &count);
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

TraceHeader header_of(const KeeperOptions& options, const Room& room) {
  const auto since = [](auto now) { return static_cast<std::uint64_t>(Nanos(now.time_since_epoch()).count()); };
  const std::uint64_t age = since(Clock::now()) - room.trace_start.load(std::memory_order_relaxed);
  return TraceHeader{.page_size = kPageSize,
                     .start = since(std::chrono::system_clock::now()) - age,
                     .local = options.local,
                     .command = options.command};
}

class Keeping {
 public:
  // From here on processes are watched, whether there is a pool for them yet or not.
  Keeping(const KeeperOptions& options, Room& room, const Birthright& files)
      : options_(options),
        room_(room),
        waker_(room, options.local >> kPageShift,
               [](pid_t process, const Error& why) {
                 spdlog::debug("process {} cannot be woken now: {}", process, why.message);
               }),
        census_(room,
                [this](std::size_t account) {
                  if (tracer_) tracer_->finish(account);
                }),
        progress_(room.progress, options.program, options.copies(), options.code) {
    if (!files.is_traced(options)) return;
    auto* const base = reinterpret_cast<std::byte*>(&room);
    auto* const rings = reinterpret_cast<TraceRing*>(base + Room::rings_at());
    if (!options.profile.empty()) {
      profiler_.emplace(options.profile, std::span(base + Room::score_at(), Score::kMostBytes));
    }
    tracer_.emplace(room, std::span(rings, Room::kAccounts), files.room, files.trace, header_of(options, room),
                    profiler_ ? &*profiler_ : nullptr);
  }

  bool wait_for_need(const Birthright& files) { return files.wait_for_need(census_); }
  Expected<void> connect() {
    PoolConfig config = options_.pool;
    if (config.nodes.empty()) {
      auto node = start_own_node(options_.own_memory);
      if (!node) return std::move(node).error();
      node_ = *std::move(node);
      config.nodes = {*node_->unix_url()};
      config.link.secret.clear();
    }
    if (options_.stock > 0) config.member.refill.min_threshold = config.member.refill.max_threshold = options_.stock;
    config.link.exportable = true;
    config.anyway = options_.later;
    config.on_loss = [copies = config.copies, code = options_.code, backup = has_backup()](const Loss& loss) {
      code.coded() ? Notices::lost(loss, code) : Notices::lost(loss, copies, backup);
    };
    if (auto usable = KeeperServer::check(config); !usable) return usable;
    auto pool = Pool::open(std::move(config));
    if (!pool) return std::move(pool).error();
    pool_ = *std::move(pool);
    if (!options_.later) {
      if (auto enough = enough_nodes(); !enough) return enough;
      if (!has_backup() && refuses()) return full();
    }
    KeeperConfig keeping;
    keeping.backup = options_.backup;
    keeping.code = options_.code;
    keeping.relay = options_.relay;
    keeping.on_last_gone = [this] { (void)eventfd_write(gone_.get(), 1); };
    keeping.is_known = [this](pid_t pid) { return has_account(room_, static_cast<std::uint32_t>(pid)); };
    auto keeper = KeeperServer::start(*pool_, std::move(keeping));
    if (!keeper) return std::move(keeper).error();
    keeper_ = *std::move(keeper);
    return {};
  }
  void listen(Fd listener) { keeper_->listen(std::move(listener)); }

  // Until the program, and all that came from it, is over.
  void keep(const Fd& program) {
    for (bool running = true;;) {
      std::array<pollfd, 2> waits{{{running ? program.get() : -1, POLLIN, 0}, {gone_.get(), POLLIN, 0}}};
      poll(waits.data(), waits.size(), static_cast<int>(kCensusEvery.count()));
      if (waits[0].revents != 0) running = false;
      if (waits[1].revents != 0) forget_event(gone_);
      census_.look();
      const KeeperStatus status = keeper_->status();
      if (census_.living() > 0) {
        notices_.look(room_.budget, options_.local, status, *pool_);
        notices_.look_at_nodes(*pool_, has_backup());
        notices_.look_at_copies(status, *pool_, options_.code);
        notices_.look_at_moves(status);
        if (has_backup()) notices_.look_at_disk(options_.backup.folder, status, *pool_);
      }
      if (has_backup()) urls_[keeper_wire::kDisk.value] = "disk " + options_.backup.folder;
      const auto nodes = pool_->status();
      progress_.write(status, nodes, Clock::now());
      for (const MemberStatus& node : nodes) urls_[node.node.value] = node_ ? "this machine" : node.url;
      if (!running && status.processes == 0 && status.leaving == 0 && census_.living() == 0) return;
    }
  }

  // Of a program that is over.
  void tell(const Fd& stats) const {
    const RunReport report{.program = options_.program,
                           .local = options_.local,
                           .local_peak = room_.budget.peak.load(std::memory_order_relaxed) << kPageShift,
                           .took = std::chrono::duration_cast<Millis>(Clock::now() - began_),
                           .nodes = urls_,
                           .replicas = options_.copies(),
                           .code = options_.code,
                           .backup = options_.backup.folder,
                           .status = keeper_ ? keeper_->status() : KeeperStatus{}};
    if (stats) {
      const std::string json = to_json(report, census_);
      const bool written = ftruncate(stats.get(), 0) == 0 &&
                           pwrite(stats.get(), json.data(), json.size(), 0) == static_cast<ssize_t>(json.size());
      if (!written) fmt::print(stderr, "comex: cannot write the file of --stats: {}\n", std::strerror(errno));
    }
    if (options_.summary) fmt::print(stderr, "{}", to_summary(report, census_));
  }
  void finish_trace() {
    tracer_.reset();
    if (!profiler_) return;
    const auto taken = [](const std::atomic<bool>& part) { return part.load(std::memory_order_relaxed); };
    const Profiler::Played played{.known = census_.total().known,
                                  .unknown = census_.total().unknown,
                                  .anybody = std::any_of(room_.played.begin(), room_.played.end(), taken),
                                  .wanted = room_.prefetch == Prefetch::record};
    fmt::print(stderr, "comex: {}\n", profiler_->conclude(played));
  }

 private:
  [[nodiscard]] bool has_backup() const { return !options_.backup.folder.empty(); }
  // Whether every node has said that it has nothing. One that says nothing for a while may do better later.
  [[nodiscard]] bool refuses() {
    Deadline deadline(kFirstFrame);
    for (bool refused = false;;) {
      const Errc answer = pool_->wait_for_frames(1, Deadline(kFirstLook));
      if (answer == Errc::no_memory && !std::exchange(refused, true)) deadline = Deadline(kScraps);
      if (answer == Errc::ok || deadline.passed()) return answer == Errc::no_memory;
    }
  }
  // For as many copies as there are to be.
  [[nodiscard]] Expected<void> enough_nodes() const {
    const std::uint32_t copies = pool_->config().copies;
    const std::size_t up = pool_->count_apart();
    if (up >= copies) return {};
    std::string why;
    for (const MemberStatus& node : pool_->status()) {
      if (node.state != MemberState::up) why += fmt::format("{}{}", why.empty() ? "" : "; ", node.last_error);
    }
    const char* hint = "is `comex serve` running there?";
    if (const auto doubles = pool_->doubles()) {
      why = fmt::format("{} and {} are one{}{}", doubles->first.text(), doubles->second.text(), why.empty() ? "" : "; ",
                        why);
      hint = "name each memory node once, and others with --pool URL,URL";
    }
    const Code code = options_.code;
    const std::string needs = code.coded() ? fmt::format("--code {} needs {}", to_text(code), code.nodes())
                                           : fmt::format("--replicas {} needs as many", copies);
    return Error{
        Errc::disconnected,
        fmt::format("{} memory nodes that do not fail together, and {} can be used ({}); {}", needs, up, why, hint)};
  }
  [[nodiscard]] Error full() const {
    return Error{Errc::no_memory, fmt::format("the pool has no memory left ({} is lent); end one of its clients "
                                              "(`comex status --json` lists them), or add a memory node",
                                              sizes_of(*pool_))};
  }

  const KeeperOptions& options_;
  Room& room_;
  const Fd gone_{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};  // an event when no process is left, for now
  std::unique_ptr<Server> node_;
  std::unique_ptr<Pool> pool_;
  std::unique_ptr<KeeperServer> keeper_;
  Waker waker_;
  std::optional<Profiler> profiler_;
  std::optional<Tracer> tracer_;
  Census census_;
  Notices notices_;
  ProgressWriter progress_;
  std::map<std::uint16_t, std::string> urls_;  // of all sessions so far
  const Clock::time_point began_ = Clock::now();
};

// Nobody who reads what the program said to its end has to wait until all is taken down.
void leave_errors_to_the_program() {
  const Fd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  dup2(null.get(), STDERR_FILENO);
}

void say(const Fd& to, const KeeperReport& report) {
  const std::string bytes = to_bytes(report);
  (void)!write(to.get(), bytes.data(), bytes.size());
}

Expected<void> keep(const KeeperOptions& options, Birthright& files) {
  const auto room = files.map_room(files.is_traced(options));
  if (!room) return room.error();
  Keeping keeping(options, **room, files);
  const bool at_once = !options.pool.nodes.empty() && !options.later;
  if (at_once || keeping.wait_for_need(files)) {
    if (auto connected = keeping.connect(); !connected) return connected;
    keeping.listen(std::move(files.listener));
    say(files.report, {});
    files.report.reset();
    keeping.keep(files.program);
  }
  keeping.tell(files.stats);
  keeping.finish_trace();
  leave_errors_to_the_program();
  files.done.reset();  // nor does `comex run`
  return {};
}

int run() {
  setpriority(PRIO_PROCESS, 0, kKeeperPriority);  // where that is allowed
  signal(SIGXFSZ, SIG_IGN);                       // of a file that grows too large
  Birthright files = Birthright::take();
  const auto options = files.read_options();
  files.options.reset();
  if (!options) {
    fmt::print(stderr, "comex: comex-keeper is run by `comex run`: {}\n", options.error().message);
    return 2;
  }
  start_logging(options->log);
  const auto kept = keep(*options, files);
  if (kept) return 0;
  // Otherwise the program has begun, and nobody waits for a report.
  if (!options->pool.nodes.empty() && !options->later) {
    say(files.report, {kept.error().code, kept.error().message});
  } else {
    fmt::print(stderr, "comex: the program cannot have more memory than is here: {}\n", kept.error().message);
  }
  return 1;
}

}  // namespace
}  // namespace comex

int main() {
  try {
    return comex::run();
  } catch (const std::exception& error) {
    fmt::print(stderr, "comex: the keeper ended: {}\n", error.what());
    return 1;
  }
}
