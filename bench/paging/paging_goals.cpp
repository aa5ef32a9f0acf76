// What paging promises, and whether a run kept it.
#include <fmt/format.h>

#include "bench/paging/paging_report.h"
#include "bench/paging/system.h"

namespace comex::bench {

namespace {

// A system beside another with one thread: at most so many times its microseconds.
struct Promise {
  std::string_view name;
  std::string_view system;
  std::string_view beside;
  std::string_view column;
  double limit;
};

constexpr Promise kPromises[] = {
    {"shm: sequential pages", kPagingShm, kPagingZram, "sequential", 0.35},
    {"shm: every tenth page", kPagingShm, kPagingZram, "stride10", 0.65},
    {"shm: random pages", kPagingShm, kPagingZram, "random", 0.65},
    {"TCP: random pages", kPagingTcp, kPagingDisk, "random", 0.5},
    {"TCP: sequential pages", kPagingTcp, kPagingDisk, "sequential", 1.0},
};
constexpr std::string_view kThreadColumns[] = {"sequential", "stride10", "random", "random-write"};
constexpr double kThreadsFactor = 1.2;

Goal judge_one(const PagingFigures& figures, const Promise& promise) {
  Goal goal{std::string(promise.name),
            fmt::format("at most {:.2f} x {}", promise.limit, promise.beside),
            "not measured",
            0,
            promise.limit,
            {}};
  if (const auto ratio = figures.ratio(promise.system, promise.beside, promise.column, 1)) {
    goal.value = *ratio;
    goal.met = goal.value <= goal.limit;
    goal.figure = fmt::format("{:.2f} x", goal.value);
  }
  return goal;
}

// A second thread must not cost comex more than it costs the kernel. Judged by the worst pattern; the figure shows
// each.
Goal judge_threads(const PagingFigures& figures) {
  Goal goal{"shm: ratio to zram with two threads",
            fmt::format("at most {} x that with one", kThreadsFactor),
            "not measured",
            0,
            kThreadsFactor,
            {}};
  std::string each;
  double worst = 0;
  for (const std::string_view column : kThreadColumns) {
    const auto one = figures.ratio(kPagingShm, kPagingZram, column, 1);
    const auto two = figures.ratio(kPagingShm, kPagingZram, column, 2);
    if (!one || !two) return goal;
    worst = std::max(worst, *two / *one);
    each += fmt::format("{}{:.2f}", each.empty() ? "" : ", ", *two / *one);
  }
  goal.value = worst;
  goal.met = worst <= goal.limit;
  goal.figure = fmt::format("{} x for sequential, tenth, random, written", each);
  return goal;
}

}  // namespace

std::vector<Goal> judge(const PagingFigures& figures) {
  std::vector<Goal> goals;
  for (const Promise& promise : kPromises) goals.push_back(judge_one(figures, promise));
  goals.push_back(judge_threads(figures));
  return goals;
}

}  // namespace comex::bench
