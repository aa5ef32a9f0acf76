// What prefetching promises, and whether a run kept it.
#include <fmt/format.h>

#include "bench/paging/system.h"
#include "bench/prefetch/prefetch_report.h"
#include "bench/prefetch/programs.h"

namespace comex::bench {

namespace {

// comex with the prefetcher that it takes by itself, beside the kernel: at most so many times its seconds.
struct Promise {
  std::string_view name;
  std::string_view system;
  std::string_view program;
  std::string_view beside;
  double limit;
};

constexpr Promise kPromises[] = {
    {"shm: sequential pages", kPagingShm, "sequential", kPagingZram, 0.22},
    {"shm: every tenth page", kPagingShm, "stride10", kPagingZram, 0.30},
    {"shm: four interleaved strides", kPagingShm, "interleaved4", kPagingZram, 0.40},
    {"shm: random pages", kPagingShm, "random", kPagingZram, 0.55},
    {"TCP: sequential pages", kPagingTcp, "sequential", kPagingZram, 0.60},
    {"TCP: every tenth page", kPagingTcp, "stride10", kPagingZram, 0.80},
    {"shm: numpy, a product of matrices", kPagingShm, kNumpyProduct, kPagingZram, 0.50},
    {"shm: numpy, a product of matrices", kPagingShm, kNumpyProduct, kPagingDisk, 0.25},
    {"shm: GNU sort", kPagingShm, kGnuSort, kPagingZram, 0.50},
    {"shm: GNU sort", kPagingShm, kGnuSort, kPagingDisk, 0.25},
};
constexpr double kMostOnRandom = 1.03;  // what prefetching may cost where there is nothing to find

Goal judge_one(const PrefetchFigures& figures, const Promise& promise) {
  Goal goal{std::string(promise.name),
            fmt::format("at most {:.2f} x {}", promise.limit, promise.beside),
            "not measured",
            0,
            promise.limit,
            {}};
  const auto beside = [&](const std::string& prefetch) {
    return figures.ratio(promise.program, {std::string(promise.system), prefetch}, {std::string(promise.beside), ""});
  };
  const auto ratio = beside(figures.usual);
  if (!ratio) return goal;
  goal.value = *ratio;
  goal.met = goal.value <= goal.limit;
  goal.figure = fmt::format("{:.2f} x", goal.value);
  // What another one would have made of it.
  const std::string* best = &figures.usual;
  double least = *ratio;
  for (const std::string& each : figures.prefetchers) {
    const auto other = beside(each);
    if (!other || *other >= least) continue;
    least = *other;
    best = &each;
  }
  if (best != &figures.usual) goal.figure += fmt::format(" with {}, {:.2f} x with {}", figures.usual, least, *best);
  return goal;
}

bool is_random(std::string_view program) {
  return program == "random";
}

// Of the programs with and without an order: the one on which leap does worst.
void judge_worst(const PrefetchFigures& figures, std::string_view system, bool random, Goal& goal) {
  const std::string name(system);
  std::string worst;
  unsigned count = 0;
  for (const PrefetchProgram& program : figures.programs) {
    if (is_random(program.name) != random) continue;
    const auto ratio = figures.ratio(program.name, {name, "leap"}, {name, "readahead"});
    if (!ratio) continue;
    ++count;
    if (*ratio <= goal.value) continue;
    goal.value = *ratio;
    worst = program.name;
  }
  if (count == 0) return;
  goal.met = goal.value <= goal.limit;
  goal.figure = fmt::format("at worst {:.2f} x, on {}, of {}", goal.value, worst, count);
}

Goal judge_leap(const PrefetchFigures& figures, std::string_view system, std::string_view medium) {
  Goal goal{
      fmt::format("{}: leap beside readahead", medium), "faster on all but random pages", "not measured", 0, 1, {}};
  judge_worst(figures, system, false, goal);
  return goal;
}

Goal judge_random(const PrefetchFigures& figures, std::string_view system, std::string_view medium) {
  Goal goal{fmt::format("{}: leap on random pages", medium),
            fmt::format("at most {:.2f} x readahead", kMostOnRandom),
            "not measured",
            0,
            kMostOnRandom,
            {}};
  judge_worst(figures, system, true, goal);
  return goal;
}

Goal judge_cost(const PrefetchFigures& figures, std::string_view system, std::string_view medium) {
  Goal goal{fmt::format("{}: prefetching on random pages", medium),
            fmt::format("at most {:.2f} x none", kMostOnRandom),
            "not measured",
            0,
            kMostOnRandom,
            {}};
  const std::string name(system);
  const auto ratio = figures.ratio("random", {name, figures.usual}, {name, "none"});
  if (!ratio) return goal;
  goal.value = *ratio;
  goal.met = goal.value <= goal.limit;
  goal.figure = fmt::format("{:.2f} x", goal.value);
  return goal;
}

}  // namespace

std::vector<Goal> judge(const PrefetchFigures& figures) {
  std::vector<Goal> goals;
  for (const Promise& promise : kPromises) goals.push_back(judge_one(figures, promise));
  goals.push_back(judge_leap(figures, kPagingShm, "shm"));
  goals.push_back(judge_random(figures, kPagingShm, "shm"));
  goals.push_back(judge_cost(figures, kPagingShm, "shm"));
  goals.push_back(judge_leap(figures, kPagingTcp, "TCP"));
  goals.push_back(judge_random(figures, kPagingTcp, "TCP"));
  goals.push_back(judge_cost(figures, kPagingTcp, "TCP"));
  return goals;
}

}  // namespace comex::bench
