#include "bench/evict/evict_bench.h"

#include <fmt/format.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "base/units.h"
#include "bench/child.h"
#include "bench/evict/belady.h"
#include "bench/evict/references.h"
#include "bench/host_load.h"
#include "bench/interrupt.h"
#include "bench/own_nodes.h"
#include "bench/paging/program.h"
#include "cli/command_line.h"
#include "pager/evict/choice.h"

namespace comex::bench {

namespace {

constexpr std::uint64_t kSeed = 1;
constexpr std::uint64_t kRoom = 6;  // a node's memory, in multiples of what is local

EvictString best_for(References references, std::uint64_t local) {
  ReferenceString string(references, local, kSeed);
  // The load writes to each page first.
  PageString uses;
  uses.reserve(string.pages() + string.length());
  for (std::uint64_t page = 0; page < string.pages(); ++page) uses.push_back(static_cast<std::uint32_t>(page));
  for (std::uint64_t i = 0; i < string.length(); ++i) uses.push_back(static_cast<std::uint32_t>(string.next()));
  EvictString found{std::string(to_string(references)), string.pages(), string.length(), 0, {}};
  found.best = best_possible(uses, local, string.pages());
  for (const std::string_view policy : kEvictNames) found.policies.push_back({std::string(policy), {}, {}});
  return found;
}

class EvictRounds {
 public:
  EvictRounds(const OwnNode& node, std::string folder, const EvictOptions& options)
      : node_(node), folder_(std::move(folder)), options_(options) {}

  // One run of one policy.
  Expected<void> measure(EvictString& string, EvictSeries& series) {
    const std::string stats = folder_ + "/stats.json";
    const std::vector<std::string> command{beside_this_program("comex"),
                                           "run",
                                           "--at-once",  // it may be over before the keeper would have woken it
                                           "--local",
                                           std::to_string(options_.local_bytes),
                                           "--pool",
                                           node_.shm.text(),
                                           "--prefetch",
                                           "none",
                                           "--evict",
                                           series.policy,
                                           "--stats",
                                           stats,
                                           "--",
                                           beside_this_program("comex-evict-load"),
                                           string.name,
                                           std::to_string(options_.local_bytes >> kPageShift),
                                           std::to_string(kSeed)};
    const auto output = run_program(command, {.log = folder_ + "/run.log"});
    if (!output) return output.error();
    const auto seconds = parse_seconds(*output);
    if (!seconds) return seconds.error();
    std::stringstream text;
    text << std::ifstream(stats).rdbuf();
    const auto missed = parse_missed(text.str());
    if (!missed) return missed.error();
    series.missed.push_back(static_cast<double>(*missed));
    series.us.push_back(*seconds * 1e6 / static_cast<double>(string.length));
    return {};
  }

 private:
  const OwnNode& node_;
  const std::string folder_;
  const EvictOptions& options_;
};

}  // namespace

Expected<EvictFigures> bench_evict(const EvictOptions& options, Steps& steps) {
  EvictFigures figures;
  figures.local_bytes = options.local_bytes;
  const Expected<TempFolder> folder = TempFolder::create();
  if (!folder) return folder.error();
  steps.stage("looking whether the machine is idle");
  figures.load_before = host_load(kLookAtLoad);
  for (const References references : options.references) {
    steps.stage(fmt::format("computing the best possible: {}", to_string(references)));
    figures.strings.push_back(best_for(references, options.local_bytes >> kPageShift));
    if (interrupted()) return interruption();
  }
  steps.stage("starting a memory node");
  Expected<OwnNodes> nodes = OwnNodes::start(folder->path(), 1, options.local_bytes * kRoom);
  if (!nodes) return nodes.error();
  EvictRounds rounds(nodes->nodes()[0], folder->path(), options);
  steps.expect(options.references.size() * kEvictNames.size() * options.rounds);
  for (unsigned round = 1; round <= options.rounds; ++round) {
    figures.rounds = round;
    for (EvictString& string : figures.strings) {
      for (EvictSeries& series : string.policies) {
        steps.step(fmt::format("round {} of {}: {}, {}", round, options.rounds, string.name, series.policy));
        const Expected<void> measured = rounds.measure(string, series);
        if (interrupted()) return interruption();
        if (!measured) figures.failed.push_back({string.name + ", " + series.policy, measured.error().message});
      }
    }
  }
  return figures;
}

}  // namespace comex::bench
