#include "bench/keep/keep_bench.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "bench/host_load.h"
#include "bench/interrupt.h"
#include "bench/own_nodes.h"
#include "cli/ask_nodes.h"
#include "cli/command_line.h"
#include "fabric/socket.h"
#include "run/programs.h"

namespace comex::bench {

namespace {

constexpr Millis kLook{100};
constexpr Millis kKeepPatience{300'000};
constexpr Millis kBeforeFault{1'000};  // while the program is watched already
constexpr Millis kRest{3'000};

std::vector<std::string> flags_of(Keeping keeping) {
  switch (keeping) {
    case Keeping::one_copy: return {};
    case Keeping::two_copies: return {"--replicas", "2"};
    case Keeping::coded: return {"--code", "4+1"};
  }
  return {};
}

struct Answer {
  double us = 0;       // per page
  double longest = 0;  // ms, for one of them
};

// comex-keep-load under `comex run`, on nodes of its own.
class KeptProgram {
 public:
  static Expected<KeptProgram> start(const KeepOptions& options, Keeping keeping, const std::string& folder) {
    Expected<OwnNodes> nodes = OwnNodes::start(folder, options.nodes, options.node_bytes());
    if (!nodes) return nodes.error();
    KeptProgram program(*std::move(nodes), folder);
    if (Expected<void> begun = program.begin(options, keeping); !begun) return begun.error();
    return program;
  }

  Expected<Answer> tell(const std::string& order) {
    if (Expected<void> said = say(order); !said) return said.error();
    return hear();
  }
  // Does something to the node that has the most of it while the program is being watched.
  Expected<Answer> tell_and_strike(const std::string& order, int signal) {
    if (Expected<void> said = say(order); !said) return said.error();
    std::this_thread::sleep_for(kBeforeFault);
    struck_ = fullest_node();
    ::kill(nodes_.nodes()[struck_].process.pid(), signal);
    return hear();
  }
  // The node that was stopped goes on; until all is well.
  Expected<void> recover() {
    ::kill(nodes_.nodes()[struck_].process.pid(), SIGCONT);
    for (const Deadline deadline(kKeepPatience); !interrupted() && !deadline.passed();) {
      const auto report = status();
      if (report && report->well()) return {};
      std::this_thread::sleep_for(kLook);
    }
    return interrupted() ? interruption() : Error{Errc::timeout, "its copies were not made again in time"};
  }
  // Memory of the nodes for each byte of the program that is there.
  [[nodiscard]] double held() const {
    std::this_thread::sleep_for(kLook * 3);  // the keeper writes it down now and then
    const auto report = status();
    return report && report->pages > 0 ? static_cast<double>(report->held) / static_cast<double>(report->pages) : 0;
  }

 private:
  KeptProgram(OwnNodes nodes, std::string folder) : folder_(std::move(folder)), nodes_(std::move(nodes)) {}

  Expected<void> begin(const KeepOptions& options, Keeping keeping) {
    const std::string orders = folder_ + "/orders";
    if (::mkfifo(orders.c_str(), 0600) != 0) return system_error("cannot make a fifo");
    orders_ = Fd(::open(orders.c_str(), O_RDWR | O_CLOEXEC));
    int ends[2] = {-1, -1};
    if (!orders_ || ::pipe2(ends, O_CLOEXEC) != 0) return system_error("cannot make a pipe");
    answers_ = Fd(ends[0]);
    const Fd far(ends[1]);
    std::string urls;
    for (const OwnNode& node : nodes_.nodes()) urls += (urls.empty() ? "" : ",") + node.tcp.text();
    std::vector<std::string> line{beside_this_program("comex"),          "run",    "--at-once", "--local",
                                  std::to_string(options.local_bytes()), "--pool", urls,        "--secret-file",
                                  OwnNodes::secret_file(folder_)};
    for (std::string& flag : flags_of(keeping)) line.push_back(std::move(flag));
    for (const std::string& word : {std::string("--"), beside_this_program("comex-keep-load"), std::string("--set"),
                                    std::to_string(options.set_bytes), std::string("--orders"), orders}) {
      line.push_back(word);
    }
    Expected<Child> child = Child::spawn(line, log(), far.get());
    if (!child) return child.error();
    child_ = *std::move(child);
    return {};
  }

  [[nodiscard]] std::string log() const { return folder_ + "/run.log"; }
  Expected<void> say(const std::string& order) {
    const std::string line = order + "\n";
    if (::write(orders_.get(), line.data(), line.size()) == static_cast<ssize_t>(line.size())) return {};
    return system_error("cannot tell the program what to do");
  }
  Expected<Answer> hear() {
    std::string line;
    for (const Deadline deadline(kKeepPatience); line.find('\n') == std::string::npos;) {
      if (interrupted()) return interruption();
      if (deadline.passed()) return Error{Errc::timeout, "it did not answer in time"};
      if (!wait_ready(answers_.get(), POLLIN, Deadline(kLook))) continue;
      char c = 0;
      if (::read(answers_.get(), &c, 1) != 1) return Error{Errc::io, "it ended: " + last_line(log())};
      line += c;
    }
    Answer answer;
    unsigned long long wrong = 0;
    if (std::sscanf(line.c_str(), "%lf %lf %llu", &answer.us, &answer.longest, &wrong) != 3) {
      return Error{Errc::io, "it says " + line};
    }
    if (wrong > 0) return Error{Errc::io, fmt::format("{} pages were wrong", wrong)};
    return answer;
  }
  [[nodiscard]] std::optional<ProgramReport> status() const {
    for (ProgramReport& report : programs_here()) {
      if (report.pid == static_cast<std::uint32_t>(child_.pid())) return std::move(report);
    }
    return std::nullopt;
  }
  [[nodiscard]] std::size_t fullest_node() const {
    LinkOptions options;
    options.secret = nodes_.secret();
    options.observe = true;
    std::vector<Url> urls;
    for (const OwnNode& node : nodes_.nodes()) urls.push_back(node.tcp);
    const auto reports = ask_nodes(urls, options);
    std::size_t fullest = 0;
    const auto lent = [&](std::size_t node) { return reports[node].status ? reports[node].status->lent : 0; };
    for (std::size_t node = 1; node < reports.size(); ++node) {
      if (lent(node) > lent(fullest)) fullest = node;
    }
    return fullest;
  }

  std::string folder_;
  OwnNodes nodes_;
  std::size_t struck_ = 0;
  Fd orders_;
  Fd answers_;
  Child child_;  // last: ends before its nodes do
};

// One way to keep pages, once.
class Trial {
 public:
  Trial(const KeepOptions& options, Keeping keeping, KeptProgram& program, KeepFigures& figures)
      : options_(options), keeping_(keeping), program_(program), figures_(figures) {}

  Expected<void> run() {
    if (Expected<void> done = with_all_nodes(); !done || keeping_ == Keeping::one_copy) return done;
    return without_one();
  }

 private:
  Expected<void> with_all_nodes() {
    if (auto done = time(kFill, "fill"); !done) return done;
    figures_.add(kHeldFilled, keeping_, program_.held());
    if (auto done = time(kSequential, "sequential"); !done) return done;
    if (auto done = time(kRandom, "random"); !done) return done;
    if (auto done = wait(kPauseCalm, 0); !done) return done;
    if (auto done = time(kRewrite, fmt::format("rewrite {}", options_.rewrites)); !done) return done;
    figures_.add(kHeldRewritten, keeping_, program_.held());
    std::this_thread::sleep_for(kRest);
    figures_.add(kHeldRested, keeping_, program_.held());
    return {};
  }
  // Before its lease is over: the dead one's copies are not made again yet.
  Expected<void> without_one() {
    if (auto done = wait(kPauseStopped, SIGSTOP); !done) return done;
    if (auto done = program_.recover(); !done) return done;
    if (auto done = wait(kPauseKilled, SIGKILL); !done) return done;
    if (auto done = time(kSequentialAround, "sequential"); !done) return done;
    return time(kRandomAround, "random");
  }
  Expected<void> time(const KeepMetric& metric, const std::string& order) {
    const Expected<Answer> answer = program_.tell(order);
    if (!answer) return answer.error();
    figures_.add(metric, keeping_, answer->us);
    return {};
  }
  // `strike`: the signal that a node gets meanwhile; 0: none.
  Expected<void> wait(const KeepMetric& metric, int strike) {
    const std::string order = fmt::format("watch {}", options_.watch.count());
    const Expected<Answer> answer = strike == 0 ? program_.tell(order) : program_.tell_and_strike(order, strike);
    if (!answer) return answer.error();
    figures_.add(metric, keeping_, answer->longest);
    return {};
  }

  const KeepOptions& options_;
  const Keeping keeping_;
  KeptProgram& program_;
  KeepFigures& figures_;
};

Expected<void> try_once(const KeepOptions& options, Keeping keeping, KeepFigures& figures) {
  const Expected<TempFolder> folder = TempFolder::create();
  if (!folder) return folder.error();
  Expected<KeptProgram> program = KeptProgram::start(options, keeping, folder->path());
  if (!program) return program.error();
  return Trial(options, keeping, *program, figures).run();
}

}  // namespace

Expected<KeepFigures> bench_keep(const KeepOptions& options, Steps& steps) {
  KeepFigures figures;
  figures.set_bytes = options.set_bytes;
  figures.local_bytes = options.local_bytes();
  figures.nodes = options.nodes;
  figures.rounds = options.rounds;
  figures.load_before = host_load(Millis(1'000));
  steps.expect(options.rounds * kKeepings.size());
  for (unsigned round = 0; round < options.rounds; ++round) {
    for (const Keeping keeping : kKeepings) {
      steps.step(fmt::format("round {}: {}", round + 1, to_string(keeping)));
      const Expected<void> tried = try_once(options, keeping, figures);
      if (interrupted()) return interruption();
      if (!tried) figures.failed.push_back({std::string(to_string(keeping)), tried.error().message});
    }
  }
  return figures;
}

}  // namespace comex::bench
