#include "bench/chaos/chaos_bench.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <deque>
#include <optional>
#include <thread>

#include <nlohmann/json.hpp>

#include "base/read_file.h"
#include "base/units.h"
#include "bench/chaos/chaos_program.h"
#include "bench/chaos/network.h"
#include "bench/child.h"
#include "bench/interrupt.h"
#include "bench/own_nodes.h"
#include "cli/command_line.h"

namespace comex::bench {

namespace {

using Json = nlohmann::json;

constexpr std::uint16_t kPort = 7171;
constexpr const char* kChecker = "comex-checker";
constexpr Millis kLook{20};               // how often programs are looked at
constexpr Millis kQuiet{1'000};           // what comex has to say of a fault it has said by then
constexpr Millis kMostRecovery{120'000};  // until everything has its copies again
constexpr unsigned kProgramSeconds = 20;
constexpr int kExitWrong = 1;         // of comex-paging-load
constexpr Millis kLeastLease{5'000};  // a node on a busy machine is not to lose others' leases
constexpr double kNearlyAll = 0.95;   // of a node's memory: it is full
constexpr Millis kAnswer{10'000};     // of a command
constexpr Millis kMostForAnEnd{kProgramSeconds * 1'000 + 100'000};

class Chaos {
 public:
  Chaos(const ChaosOptions& options, ChaosNetwork network, std::string folder, ChaosFigures& figures, Steps& steps)
      : options_(options),
        network_(std::move(network)),
        folder_(std::move(folder)),
        figures_(figures),
        steps_(steps),
        nodes_(options.nodes + 1) {}

  Expected<void> run() {
    if (Expected<std::string> secret = write_secret(OwnNodes::secret_file(folder_)); !secret) return secret.error();
    steps_.stage(fmt::format("starting {} memory nodes", options_.nodes));
    for (unsigned node = 1; node <= options_.nodes; ++node) {
      if (Expected<void> started = start_node(node); !started) return started;
    }
    for (unsigned i = 0; i < options_.programs; ++i) {
      programs_.emplace_back();
      if (Expected<void> started = start_program(i); !started) return started;
    }
    steps_.stage(fmt::format("{} faults, seed {}", options_.faults, options_.seed));
    steps_.expect(options_.faults);
    for (const Fault& fault :
         draw_storm(options_.seed, options_.faults, options_.nodes, options_.programs, options_.longest)) {
      if (Expected<void> survived = suffer(fault); !survived) return survived;
      if (!figures_.wrong.empty()) return {};
    }
    return finish();
  }

 private:
  // --- nodes and programs ---
  Expected<void> start_node(unsigned node) {
    std::vector<std::string> command = network_.inside(node);
    command.insert(command.end(),
                   {beside_this_program("comex"), "serve", "--memory", std::to_string(options_.node_bytes), "--listen",
                    fmt::format("{}:{}", ChaosNetwork::address(node), kPort), "--socket", "none", "--secret-file",
                    OwnNodes::secret_file(folder_), "--nid", std::to_string(node), "--lease",
                    fmt::format("{}ms", std::max(options_.longest / 2, kLeastLease).count())});
    Expected<Child> process = Child::spawn(command, fmt::format("{}/node-{}.log", folder_, node));
    if (!process) return process.error();
    nodes_[node] = *std::move(process);
    return wait_for_node(node);
  }

  // Until it answers to one who asks how it is.
  Expected<void> wait_for_node(unsigned node) {
    for (const Deadline deadline(kMostRecovery); !deadline.passed() && nodes_[node].running();) {
      Expected<Json> status = status_of(node);
      if (status || interrupted()) return status ? Expected<void>() : interruption();
    }
    return Error{Errc::timeout, fmt::format("node {} does not start: {}", node,
                                            last_line(fmt::format("{}/node-{}.log", folder_, node)))};
  }

  // A command of comex, from where the programs are, to its end. The log has what it said.
  Expected<void> ask(const std::vector<std::string>& words, const std::string& log) {
    (void)::unlink(log.c_str());
    Expected<Child> asking = Child::spawn(command_of(words), log);
    if (!asking) return asking.error();
    for (const Deadline deadline(kAnswer); asking->running();) {
      if (deadline.passed()) return Error{Errc::timeout, "no answer"};
      std::this_thread::sleep_for(kLook);
    }
    if (asking->wait_status() != 0) return Error{Errc::io, last_line(log)};
    return {};
  }
  [[nodiscard]] std::vector<std::string> command_of(const std::vector<std::string>& words) const {
    std::vector<std::string> command = network_.inside(0);
    command.push_back(beside_this_program("comex"));
    command.insert(command.end(), words.begin(), words.end());
    command.insert(command.end(), {"--secret-file", OwnNodes::secret_file(folder_)});
    return command;
  }
  // What `comex status --json` says of a node.
  Expected<Json> status_of(unsigned node) {
    const std::string log = folder_ + "/status.json";
    if (Expected<void> asked = ask({"status", "--json", "--pool", url(node)}, log); !asked) return asked.error();
    const Json status = Json::parse(read_file(log).value_or(""), nullptr, false);
    const auto nodes = status.is_object() ? status.find("nodes") : status.end();
    if (nodes == status.end() || nodes->empty()) return Error{Errc::io, "it says nothing of the node"};
    return (*nodes)[0];
  }
  // How much of a node's memory is used; nothing, if it does not say.
  std::optional<double> use_of(unsigned node) {
    const Expected<Json> status = status_of(node);
    if (!status) return std::nullopt;
    return (*status)["used_bytes"].get<double>() / static_cast<double>(options_.node_bytes);
  }

  [[nodiscard]] static std::string url(unsigned node) {
    return fmt::format("tcp://{}:{}", ChaosNetwork::address(node), kPort);
  }

  [[nodiscard]] std::vector<std::string> run_command(const std::string& pool, bool spread) const {
    std::vector<std::string> command = network_.inside(0);
    command.insert(command.end(), {beside_this_program("comex"), "run", "--at-once", "--local", "16M", "--pool", pool,
                                   "--secret-file", OwnNodes::secret_file(folder_)});
    if (spread && options_.copies > 1) command.insert(command.end(), {"--replicas", std::to_string(options_.copies)});
    if (spread && !options_.code.empty()) command.insert(command.end(), {"--code", options_.code});
    command.emplace_back("--");
    return command;
  }

  Expected<void> start_program(unsigned i) {
    std::string pool;
    for (unsigned node = 1; node <= options_.nodes; ++node) pool += (pool.empty() ? "" : ",") + url(node);
    std::vector<std::string> command = run_command(pool, true);
    ++started_;
    // Without checksums a wrong page is one that the program sees.
    if (started_ % 2 == 0) command.insert(command.end() - 1, {"--checksums", "off"});
    command.insert(command.end(),
                   {beside_this_program(kChecker), "--seed", std::to_string(options_.seed * 1'000 + started_),
                    "--threads", "2", "--set", "64", "--seconds", std::to_string(kProgramSeconds)});
    Expected<ChaosProgram> program = ChaosProgram::start(command, fmt::format("{}/program-{}.log", folder_, started_));
    if (!program) return program.error();
    programs_[i].emplace(*std::move(program));
    return {};
  }

  // Notes how programs have ended, and starts others in their place.
  Expected<void> look_at_programs(bool replace) {
    for (unsigned i = 0; i < programs_.size(); ++i) {
      if (!programs_[i]) continue;
      const auto end = programs_[i]->ended();
      if (!end) continue;
      note(*end, programs_[i]->last_words());
      programs_[i].reset();
      if (!replace || !figures_.wrong.empty()) continue;
      if (Expected<void> started = start_program(i); !started) return started;
    }
    return {};
  }

  void note(ChaosProgram::End end, const std::string& last_words) {
    if (end == ChaosProgram::End::well) {
      ++figures_.ended_well;
    } else if (end == ChaosProgram::End::stopped && options_.copies == 1 && options_.code.empty()) {
      ++figures_.stopped;
    } else {
      figures_.wrong.push_back(fmt::format("after {} faults a program ended: {}", suffered_, last_words));
    }
  }

  // Looks after the programs meanwhile. `done`: need not wait any longer.
  template <typename Done>
  Expected<bool> wait(Millis limit, bool replace, Done&& done) {
    const Deadline deadline(limit);
    for (;;) {
      if (Expected<void> looked = look_at_programs(replace); !looked) return looked.error();
      if (done()) return true;
      if (interrupted()) return interruption();
      if (deadline.passed()) return false;
      std::this_thread::sleep_for(kLook);
    }
  }
  Expected<void> pass(Millis time) {
    const Expected<bool> passed = wait(time, true, [] { return false; });
    if (!passed) return passed.error();
    return {};
  }

  // --- faults ---
  Expected<void> suffer(const Fault& fault) {
    steps_.step(fmt::format("{}: node {}, {} ms", to_string(fault.what), fault.node, fault.lasts.count()));
    if (Expected<void> begun = begin(fault); !begun) return begun;
    if (Expected<void> passed = pass(fault.lasts); !passed) return passed;
    if (Expected<void> ended = end(fault); !ended) return ended;
    ++figures_.faults[fault.what];
    ++suffered_;
    return recover(fault.after);
  }

  Expected<void> begin(const Fault& fault) {
    Child& node = nodes_[fault.node];
    switch (fault.what) {
      case Mishap::kill_node:
      case Mishap::stop_node:
        if (!node.running()) return Error{Errc::io, fmt::format("node {} has ended by itself", fault.node)};
        ::kill(node.pid(), fault.what == Mishap::kill_node ? SIGKILL : SIGSTOP);
        return {};
      case Mishap::pull_wire:
      case Mishap::jolt_wire: return network_.pull(fault.node, true);
      case Mishap::slow_node: return network_.slow_down(fault.node, true);
      case Mishap::fill_node: return begin_to_fill(fault.node);
      case Mishap::drain_node: return begin_to_drain(fault.node);
      case Mishap::kill_program: return kill_program(fault.program);
    }
    return {};
  }

  Expected<void> end(const Fault& fault) {
    switch (fault.what) {
      case Mishap::kill_node:
        nodes_[fault.node].stop();  // it is dead: this waits until it is gone
        return start_node(fault.node);
      case Mishap::stop_node: ::kill(nodes_[fault.node].pid(), SIGCONT); return {};
      case Mishap::pull_wire:
      case Mishap::jolt_wire: return network_.pull(fault.node, false);
      case Mishap::slow_node: return network_.slow_down(fault.node, false);
      case Mishap::fill_node: return end_fill(fault.node);
      case Mishap::drain_node: return end_drain(fault.node);
      case Mishap::kill_program: return {};
    }
    return {};
  }

  Expected<void> kill_program(unsigned i) {
    if (programs_[i]) {
      programs_[i]->kill();
      if (programs_[i]->met_wrong_page()) figures_.wrong.push_back("a program that was killed had met a wrong page");
    }
    programs_[i].reset();
    return start_program(i);
  }

  Expected<void> begin_to_drain(unsigned node) {
    Expected<Child> drain = Child::spawn(command_of({"drain", url(node)}), folder_ + "/drain.log");
    if (!drain) return drain.error();
    drain_.emplace(*std::move(drain));
    return {};
  }
  // Done or not.
  Expected<void> end_drain(unsigned node) {
    if (use_of(node) == 0.0) ++figures_.emptied;
    drain_.reset();
    const Expected<void> undone = ask({"drain", "--undo", url(node)}, folder_ + "/undo.log");
    if (undone) return {};
    return Error{Errc::io, fmt::format("node {} does not lend again: {}", node, undone.error().message)};
  }

  // Somebody whose pages are nowhere else, and who wants more than there is.
  Expected<void> begin_to_fill(unsigned node) {
    std::vector<std::string> command = run_command(url(node), false);
    command.insert(command.end(), {beside_this_program("comex-paging-load"), "--set",
                                   std::to_string(options_.node_bytes), "--pass", "random", "--pass", "random"});
    Expected<Child> hog = Child::spawn(command, folder_ + "/hog.log");
    if (!hog) return hog.error();
    hog_.emplace(*std::move(hog));
    return {};
  }
  Expected<void> end_fill(unsigned node) {
    if (use_of(node).value_or(0) >= kNearlyAll) ++figures_.filled;
    if (!hog_->running() && WIFEXITED(hog_->wait_status()) && WEXITSTATUS(hog_->wait_status()) == kExitWrong) {
      figures_.wrong.push_back("who filled a node found a wrong page: " + last_line(folder_ + "/hog.log"));
    }
    hog_.reset();
    return {};
  }

  // Until comex has said of all programs that all is well, and has had time to say otherwise.
  Expected<void> recover(Millis after) {
    const auto begin = Clock::now();
    auto well_since = begin;
    const Expected<bool> well = wait(kMostRecovery, true, [&] {
      for (const auto& program : programs_) {
        if (program && !program->whole()) well_since = Clock::now();
      }
      return Clock::now() - well_since >= kQuiet;
    });
    if (!well) return well.error();
    if (!*well) {
      figures_.wrong.push_back(fmt::format("after {} faults a program did not get all its copies again", suffered_));
    }
    const std::chrono::duration<double> took = well_since - begin;
    figures_.longest_recovery = std::max(figures_.longest_recovery, took.count());
    return pass(after);
  }

  Expected<void> finish() {
    steps_.stage("waiting for the programs to end");
    const Expected<bool> ended = wait(kMostForAnEnd, false, [this] {
      return std::none_of(programs_.begin(), programs_.end(), [](const auto& program) { return program.has_value(); });
    });
    if (!ended) return ended.error();
    if (!*ended) figures_.wrong.emplace_back("a program did not end in time");
    return {};
  }

  const ChaosOptions& options_;
  ChaosNetwork network_;
  const std::string folder_;
  ChaosFigures& figures_;
  Steps& steps_;
  std::vector<Child> nodes_;  // from 1 on
  std::optional<Child> hog_;
  std::optional<Child> drain_;
  std::deque<std::optional<ChaosProgram>> programs_;
  unsigned started_ = 0;
  unsigned suffered_ = 0;
};

}  // namespace

Expected<ChaosFigures> bench_chaos(const ChaosOptions& options, Steps& steps) {
  ChaosFigures figures;
  figures.options = options;
  if (const std::string path = beside_this_program(kChecker); ::access(path.c_str(), X_OK) != 0) {
    return Error{Errc::unsupported, fmt::format("{} is missing: it belongs beside the comex command", path)};
  }
  const Expected<TempFolder> folder = TempFolder::create();
  if (!folder) return folder.error();
  steps.stage("making a network");
  Expected<ChaosNetwork> network = ChaosNetwork::create(options.nodes);
  if (!network) return network.error();
  const auto begin = Clock::now();
  Chaos chaos(options, *std::move(network), folder->path(), figures, steps);
  if (Expected<void> survived = chaos.run(); !survived) return survived.error();
  figures.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  return figures;
}

std::string to_text(const ChaosFigures& figures) {
  const ChaosOptions& options = figures.options;
  unsigned all = 0;
  std::string kinds;
  for (const auto& [mishap, count] : figures.faults) {
    all += count;
    kinds += fmt::format("  {:>5}  {}", count, to_string(mishap));
    if (mishap == Mishap::fill_node) kinds += fmt::format(": {} times to the brim", figures.filled);
    if (mishap == Mishap::drain_node) kinds += fmt::format(": {} times to the last page", figures.emptied);
    kinds += "\n";
  }
  std::string text = fmt::format(
      "comex bench chaos: {} faults in {:.0f} s, seed {}; {} memory nodes, {} programs at a time, {}\n", all,
      figures.seconds, options.seed, options.nodes, options.programs,
      options.code.empty() ? fmt::format("{} cop{} of each page", options.copies, options.copies == 1 ? "y" : "ies")
                           : fmt::format("pages coded {}", options.code));
  text += kinds;
  text += fmt::format("programs: {} found every word right, {} were stopped with a word, {} ended otherwise\n",
                      figures.ended_well, figures.stopped, figures.wrong.size());
  text += fmt::format("all pages had their copies again after {:.1f} s at the longest\n", figures.longest_recovery);
  for (const std::string& each : figures.wrong) text += fmt::format("wrong: {}\n", each);
  return text;
}

std::string to_json(const ChaosFigures& figures) {
  nlohmann::json faults = nlohmann::json::object();
  for (const auto& [mishap, count] : figures.faults) faults[std::string(to_string(mishap))] = count;
  const nlohmann::json json{{"bench", "chaos"},
                            {"seed", figures.options.seed},
                            {"nodes", figures.options.nodes},
                            {"copies", figures.options.copies},
                            {"code", figures.options.code.empty() ? "none" : figures.options.code},
                            {"programs", figures.options.programs},
                            {"longest_ms", figures.options.longest.count()},
                            {"faults", faults},
                            {"nodes_full", figures.filled},
                            {"nodes_emptied", figures.emptied},
                            {"programs_well", figures.ended_well},
                            {"programs_stopped", figures.stopped},
                            {"wrong", figures.wrong},
                            {"seconds", figures.seconds},
                            {"longest_recovery_seconds", figures.longest_recovery}};
  return json.dump(2) + "\n";
}

}  // namespace comex::bench
