#include "checker/shared.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>

namespace checker {
namespace {

std::uint64_t* map(const Settings& settings, std::size_t pages) {
  void* const memory =
      mmap(nullptr, pages * kPageSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) wrong(settings, "no memory: mmap of %zu pages failed", pages);
  return static_cast<std::uint64_t*>(memory);
}

std::uint64_t* alarm_words;
std::size_t alarm_pages;
std::atomic<std::uint64_t> alarms;

std::size_t page_of(std::uint64_t alarm) {
  return mix(alarm) % alarm_pages;
}

}  // namespace

SharedArea::SharedArea(const Settings& settings, std::size_t pages)
    : settings_(settings),
      pages_(pages),
      words_(map(settings, pages)),
      stamps_(settings.threads, std::vector<std::uint64_t>(pages)) {}

SharedArea::~SharedArea() {
  munmap(words_, pages_ * kPageSize);
}

std::byte* SharedArea::address(std::size_t page) const {
  return reinterpret_cast<std::byte*>(words_ + page * kWords);
}

void SharedArea::write(std::size_t thread, std::size_t page, std::uint64_t stamp) {
  auto* const memory = static_cast<volatile std::uint64_t*>(words_ + page * kWords);
  for (std::size_t i = thread; i < kWords; i += settings_.threads) memory[i] = word(stamp, i);
  stamps_[thread][page] = stamp;
}

void SharedArea::verify(std::size_t thread, std::size_t page) const {
  const auto* const memory = static_cast<const volatile std::uint64_t*>(words_ + page * kWords);
  for (std::size_t i = thread; i < kWords; i += settings_.threads) {
    const std::uint64_t should = word(stamps_[thread][page], i);
    const std::uint64_t is = memory[i];
    if (is == should) continue;
    wrong(settings_, "word %zu of page %p, which all threads use, is %lx, thread %zu wrote %lx", i,
          static_cast<void*>(address(page)), is, thread, should);
  }
}

void SharedArea::verify_all(std::size_t thread) const {
  for (std::size_t page = 0; page < pages_; ++page) verify(thread, page);
}

AlarmArea::AlarmArea(const Settings& settings, std::size_t pages)
    : settings_(settings), pages_(pages), words_(map(settings, pages)) {
  alarm_words = words_;
  alarm_pages = pages;
}

AlarmArea::~AlarmArea() {
  munmap(words_, pages_ * kPageSize);
}

void AlarmArea::on_alarm(int) {
  const std::size_t page = page_of(alarms.fetch_add(1));
  __atomic_fetch_add(&alarm_words[page * kWords], 1, __ATOMIC_SEQ_CST);
}

void AlarmArea::start() {
  struct sigaction action {};
  action.sa_handler = on_alarm;
  action.sa_flags = SA_RESTART;
  sigaction(SIGALRM, &action, nullptr);
  const itimerval every{{0, 2000}, {0, 2000}};
  setitimer(ITIMER_REAL, &every, nullptr);
}

// REQUIRES: no other thread runs.
void AlarmArea::stop_and_verify() {
  const itimerval never{};
  setitimer(ITIMER_REAL, &never, nullptr);
  signal(SIGALRM, SIG_IGN);
  const std::uint64_t came = alarms;
  std::vector<std::uint64_t> should(pages_);
  std::vector<std::uint64_t> last(pages_);
  for (std::uint64_t turn = 0; turn < came; ++turn) {
    const std::size_t page = page_of(turn);
    ++should[page];
    last[page] = turn;
  }
  for (std::size_t page = 0; page < pages_; ++page) {
    const std::uint64_t is = words_[page * kWords];
    if (is == should[page]) continue;
    wrong(settings_, "page %p of signals counted %lu, %lu came, the last of them was number %lu of %lu",
          static_cast<void*>(words_ + page * kWords), is, should[page], last[page], came);
  }
}

}  // namespace checker
