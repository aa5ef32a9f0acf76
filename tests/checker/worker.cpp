#include "checker/worker.h"

#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <mutex>
#include <utility>

// Since Linux 5.14; the headers of some systems are older than their kernels.
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

namespace checker {
namespace {

constexpr std::size_t kLongestRange = 64;
constexpr unsigned kGenerations = 3;
constexpr std::size_t kStepsOfChild = 300;
constexpr int kStopped = 125;  // what a process ends with that cannot go on without memory that is lost

std::int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

Worker::Worker(const Settings& settings, std::size_t number, SharedArea& shared, std::shared_mutex& gate,
               std::vector<Worker*>& all)
    : settings_(settings),
      number_(number),
      shared_(shared),
      gate_(gate),
      all_(all),
      random_(settings.seed * 1000 + number),
      wanted_pages_(settings.pages / settings.threads),
      echo_(settings) {
  while (mapped_pages_ < wanted_pages_) map();
}

void Worker::run(std::int64_t deadline) {
  while (now() < deadline) {
    if (random_.one_in(1000) && settings_.does("fork-all")) fork_among_resting();
    const std::shared_lock lock(gate_);
    step();
  }
  await_child(true);
  const std::shared_lock lock(gate_);
  verify_all();
}

void Worker::verify_all() {
  for (Plot& plot : plots_) plot.verify_all();
  shared_.verify_all(number_);
}

void Worker::step() {
  static constexpr std::array kChoices{
      Choice{"write", &Worker::write, 300},
      Choice{"verify", &Worker::verify, 200},
      Choice{"shared", &Worker::use_shared, 150},
      Choice{"advise", &Worker::advise, 40},
      Choice{"discard", &Worker::discard, 20},
      Choice{"free", &Worker::free_lazily, 10},
      Choice{"populate", &Worker::populate, 15},
      Choice{"protect", &Worker::protect, 40},
      Choice{"forbidden", &Worker::touch_forbidden, 10},
      Choice{"map", &Worker::map, 10},
      Choice{"map-over", &Worker::map_over, 15},
      Choice{"unmap", &Worker::unmap, 10},
      Choice{"move", &Worker::move, 8},
      Choice{"move-part", &Worker::move_part, 8},
      Choice{"move-and-keep", &Worker::move_and_keep, 8},
      Choice{"grow", &Worker::grow, 10},
      Choice{"shrink", &Worker::shrink, 8},
      Choice{"pipe", &Worker::copy_through_pipe, 60},
      Choice{"fork", &Worker::fork_alone, 2},
  };
  std::size_t total = 0;
  for (const Choice& choice : kChoices) total += choice.weight;
  std::size_t at = random_.below(total);
  const Choice* choice = kChoices.data();
  while (at >= choice->weight) at -= (choice++)->weight;
  if (settings_.does(choice->name)) (this->*choice->operation)();
  steps_ += 1;
}

void Worker::must(bool good, const char* what) {
  if (!good) wrong(settings_, "thread %zu, step %zu: %s: %s", number_, steps_, what, std::strerror(errno));
}

Worker::Range Worker::some_range() {
  Plot& plot = plots_[some_plot()];
  const std::size_t from = random_.below(plot.size());
  return {&plot, from, 1 + random_.below(std::min(plot.size() - from, kLongestRange))};
}

void Worker::write() {
  const Range range = some_range();
  for (std::size_t i = range.from; i < range.from + range.count; ++i) {
    if (range.plot->allows(i, 1, PROT_WRITE)) {
      range.plot->write(i, random_.next() | 1, random_.one_in(2) ? kWords : 1 + random_.below(kWords));
    }
  }
}

void Worker::verify() {
  const Range range = some_range();
  for (std::size_t i = range.from; i < range.from + range.count; ++i) {
    if (range.plot->allows(i, 1, PROT_READ)) range.plot->verify(i);
  }
}

void Worker::use_shared() {
  const std::size_t page = random_.below(shared_.pages());
  const std::size_t end = std::min(shared_.pages(), page + 1 + random_.below(8));
  for (std::size_t i = page; i < end; ++i) {
    shared_.verify(number_, i);
    if (random_.one_in(2)) shared_.write(number_, i, random_.next() | 1);
  }
}

// Advice that changes nothing that can be seen.
void Worker::advise() {
  static constexpr std::array kAdvice{MADV_WILLNEED, MADV_COLD,   MADV_PAGEOUT,
                                      MADV_NORMAL,   MADV_RANDOM, MADV_SEQUENTIAL};
  const int advice = kAdvice[random_.below(kAdvice.size())];
  if (random_.one_in(4)) {
    const std::size_t page = random_.below(shared_.pages());
    must(madvise(shared_.address(page), kPageSize, advice) == 0, "madvise of shared memory");
    return;
  }
  const Range range = some_range();
  must(madvise(range.address(), range.bytes(), advice) == 0, "madvise");
}

void Worker::discard() {
  const Range range = some_range();
  must(madvise(range.address(), range.bytes(), MADV_DONTNEED) == 0, "MADV_DONTNEED");
  range.plot->now_zero(range.from, range.count);
}

void Worker::free_lazily() {
  const Range range = some_range();
  must(madvise(range.address(), range.bytes(), MADV_FREE) == 0, "MADV_FREE");
  range.plot->now_maybe_zero(range.from, range.count);
}

void Worker::populate() {
  const Range range = some_range();
  const bool writing = random_.one_in(2);
  if (!range.plot->allows(range.from, range.count, writing ? PROT_READ | PROT_WRITE : PROT_READ)) return;
  must(madvise(range.address(), range.bytes(), writing ? MADV_POPULATE_WRITE : MADV_POPULATE_READ) == 0,
       "MADV_POPULATE");
}

void Worker::protect() {
  const Range range = some_range();
  static constexpr std::array kProtections{PROT_NONE, PROT_READ, PROT_READ | PROT_WRITE, PROT_READ | PROT_WRITE};
  const int protection = kProtections[random_.below(kProtections.size())];
  must(mprotect(range.address(), range.bytes(), protection) == 0, "mprotect");
  range.plot->now_protected(range.from, range.count, protection);
}

namespace {
thread_local sigjmp_buf forbidden_jump;
thread_local void* volatile forbidden_address;

void on_forbidden(int, siginfo_t* info, void*) {
  if (info->si_addr == forbidden_address) siglongjmp(forbidden_jump, 1);
  // Nobody meant to: the second time it is fatal.
  signal(SIGSEGV, SIG_DFL);
}
}  // namespace

// The program's own SIGSEGV is the program's own.
void Worker::touch_forbidden() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action {};
    action.sa_sigaction = on_forbidden;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &action, nullptr);
  });
  const Range range = some_range();
  const Page& page = range.plot->page(range.from);
  if (page.protection == (PROT_READ | PROT_WRITE)) return;
  auto* const at = reinterpret_cast<volatile std::uint64_t*>(range.address());
  forbidden_address = range.address();
  if (sigsetjmp(forbidden_jump, 1) == 0) {
    *at = 1;
    must(false, "a write to protected memory was possible");
  }
  forbidden_address = nullptr;
}

std::byte* Worker::map_pages(std::size_t pages, int protection) {
  void* const memory = mmap(nullptr, pages * kPageSize, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  must(memory != MAP_FAILED, "mmap");
  return static_cast<std::byte*>(memory);
}

void Worker::map() {
  if (mapped_pages_ >= wanted_pages_) return;
  const std::size_t most = random_.one_in(4) ? wanted_pages_ / 4 : 256;
  const std::size_t pages = 1 + random_.below(most);
  const int protection = random_.one_in(4) ? PROT_NONE : PROT_READ | PROT_WRITE;
  std::byte* const base = map_pages(pages, protection);
  if (protection == PROT_NONE) must(mprotect(base, pages * kPageSize, PROT_READ | PROT_WRITE) == 0, "mprotect");
  plots_.emplace_back(settings_, base, std::vector<Page>(pages));
  mapped_pages_ += pages;
}

// Over a part of a mapping in use.
void Worker::map_over() {
  const Range range = some_range();
  void* const memory = mmap(range.address(), range.bytes(), PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  must(memory == range.address(), "mmap over a mapping");
  range.plot->now_zero(range.from, range.count);
  range.plot->now_protected(range.from, range.count, PROT_READ | PROT_WRITE);
}

void Worker::unmap() {
  if (mapped_pages_ < wanted_pages_) return;
  const Range range = some_range();
  must(munmap(range.address(), range.bytes()) == 0, "munmap");
  Plot rest = range.plot->cut(range.from + range.count);
  range.plot->cut(range.from);
  mapped_pages_ -= range.count;
  if (rest.size() > 0) plots_.push_back(std::move(rest));
  std::erase_if(plots_, [](const Plot& plot) { return plot.size() == 0; });
  while (plots_.empty()) map();
}

void Worker::make_whole(Plot& plot) {
  must(mprotect(plot.address(0), plot.size() * kPageSize, PROT_READ | PROT_WRITE) == 0, "mprotect of a mapping");
  plot.now_protected(0, plot.size(), PROT_READ | PROT_WRITE);
}

void Worker::move() {
  Plot& plot = plots_[some_plot()];
  make_whole(plot);
  const std::size_t bytes = plot.size() * kPageSize;
  std::byte* const target = map_pages(plot.size(), PROT_NONE);
  void* const moved = mremap(plot.address(0), bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, target);
  if (moved == MAP_FAILED && errno == EFAULT) {  // pieces with histories that do not fit are no one mapping
    munmap(target, bytes);
    return;
  }
  must(moved == target, "mremap to a place");
  plot.now_at(target);
}

void Worker::move_part() {
  const Range range = some_range();
  make_whole(*range.plot);
  std::byte* const target = map_pages(range.count, PROT_NONE);
  void* const moved = mremap(range.address(), range.bytes(), range.bytes(), MREMAP_MAYMOVE | MREMAP_FIXED, target);
  if (moved == MAP_FAILED && errno == EFAULT) {
    munmap(target, range.bytes());
    return;
  }
  must(moved == target, "mremap of a part");
  Plot rest = range.plot->cut(range.from + range.count);
  Plot part = range.plot->cut(range.from);
  part.now_at(target);
  if (rest.size() > 0) plots_.push_back(std::move(rest));
  plots_.push_back(std::move(part));
  std::erase_if(plots_, [](const Plot& plot) { return plot.size() == 0; });
}

void Worker::move_and_keep() {
  if (mapped_pages_ >= wanted_pages_) return;
  Plot& plot = plots_[some_plot()];
  make_whole(plot);
  const std::size_t bytes = plot.size() * kPageSize;
  void* const moved = mremap(plot.address(0), bytes, bytes, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, nullptr);
  if (moved == MAP_FAILED && errno == EFAULT) return;
  must(moved != MAP_FAILED, "mremap with MREMAP_DONTUNMAP");
  Plot left(settings_, plot.address(0), std::vector<Page>(plot.size()));
  plot.now_at(static_cast<std::byte*>(moved));
  mapped_pages_ += left.size();
  plots_.push_back(std::move(left));
}

void Worker::grow() {
  if (mapped_pages_ >= wanted_pages_) return;
  Plot& plot = plots_[some_plot()];
  make_whole(plot);
  const std::size_t more = 1 + random_.below(kLongestRange);
  void* const grown = mremap(plot.address(0), plot.size() * kPageSize, (plot.size() + more) * kPageSize,
                             random_.one_in(3) ? 0 : MREMAP_MAYMOVE);
  if (grown == MAP_FAILED && (errno == EFAULT || errno == ENOMEM)) return;
  must(grown != MAP_FAILED, "mremap to grow");
  plot.now_at(static_cast<std::byte*>(grown));
  plot.resize(plot.size() + more);
  mapped_pages_ += more;
}

void Worker::shrink() {
  Plot& plot = plots_[some_plot()];
  if (plot.size() == 1 || mapped_pages_ < wanted_pages_) return;
  const std::size_t less = 1 + random_.below(std::min(plot.size() - 1, kLongestRange));
  void* const same = mremap(plot.address(0), plot.size() * kPageSize, (plot.size() - less) * kPageSize, 0);
  must(same == plot.address(0), "mremap to shrink");
  plot.resize(plot.size() - less);
  mapped_pages_ -= less;
}

void Worker::copy_through_pipe() {
  const Range from = some_range();
  const Range to = some_range();
  const std::size_t pages = std::min({from.count, to.count, Echo::kMost / kPageSize});
  const bool overlap = from.plot == to.plot && from.from < to.from + pages && to.from < from.from + pages;
  if (overlap || !from.plot->allows(from.from, pages, PROT_READ) ||
      !to.plot->allows(to.from, pages, PROT_READ | PROT_WRITE)) {
    return;
  }
  // Which of the two freed memory is, is decided by a write, not by looking.
  for (std::size_t i = 0; i < pages; ++i) {
    if (from.plot->page(from.from + i).may_be_zero) return;
  }
  if (generation_ == 0) {
    echo_.copy(from.address(), to.address(), pages * kPageSize, 1 + random_.below(2 * kPageSize));
  } else {
    echo_.copy_alone(from.address(), to.address(), pages * kPageSize);
  }
  for (std::size_t i = 0; i < pages; ++i) {
    to.plot->now_as(to.from + i, from.plot->page(from.from + i));
    to.plot->verify(to.from + i);
  }
}

// While the other threads go on: what they own cannot be told in the child.
void Worker::fork_alone() {
  await_child(false);
  if (child_ == 0 && generation_ < kGenerations) start_child(false);
}

// While they stand still: the child checks what every thread wrote.
void Worker::fork_among_resting() {
  await_child(true);
  const std::unique_lock lock(gate_);
  start_child(true);
}

void Worker::start_child(bool all) {
  const std::uint64_t seed = random_.next();
  const pid_t pid = fork();
  must(pid >= 0, "fork");
  if (pid > 0) {
    child_ = pid;
    return;
  }
  random_ = Random(seed);
  generation_ += 1;
  child_ = 0;
  live_as_child(all);
}

void Worker::live_as_child(bool all) {
  if (all) {
    for (Worker* const worker : all_) worker->verify_all();
  }
  verify_all();
  for (std::size_t i = 0; i < kStepsOfChild; ++i) step();
  await_child(true);
  verify_all();
  _exit(0);
}

void Worker::await_child(bool block) {
  if (child_ == 0) return;
  int status = 0;
  pid_t pid = 0;
  while ((pid = waitpid(child_, &status, block ? 0 : WNOHANG)) < 0 && errno == EINTR) {
  }
  if (pid == 0) return;
  must(pid == child_, "waitpid");
  // By comex, which has said why: memory of the child is lost. Nothing is wrong, and there is nothing left to check.
  if (WIFEXITED(status) && WEXITSTATUS(status) == kStopped) _exit(kStopped);
  if (status != 0) wrong(settings_, "thread %zu, step %zu: a child ended with status %x", number_, steps_, status);
  child_ = 0;
}

}  // namespace checker
