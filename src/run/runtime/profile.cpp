#include "run/runtime/profile.h"

#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <span>

#include "base/own_place.h"
#include "pager/prefetch/choice.h"
#include "pager/prefetch/recorded.h"
#include "run/runtime/process.h"

namespace comex::runtime {
namespace {

// All zeros where there is no profile.
struct Program {
  std::uint64_t executable = 0;
  std::uint64_t arguments = 0;
  Anchors anchors;
};

constinit Program program;
constinit Recorded recorded;

// Not of its path: that is often another, and the file the same.
std::uint64_t executable_now() noexcept {
  struct stat file {};
  if (stat("/proc/thread-self/exe", &file) != 0) return 0;
  const std::array<std::int64_t, 3> what{file.st_size, file.st_mtim.tv_sec, file.st_mtim.tv_nsec};
  return fingerprint(std::as_bytes(std::span(what)));
}

std::uint64_t arguments_now() noexcept {
  const int file = ::open("/proc/thread-self/cmdline", O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  std::uint64_t sum = kNoBytes;
  std::array<std::byte, 4096> some;
  for (ssize_t got = 0; (got = ::read(file, some.data(), some.size())) > 0;) {
    sum = fingerprint(std::span(some).first(static_cast<std::size_t>(got)), sum);
  }
  ::close(file);
  return sum;
}

// Of parts for this executable, one with the same arguments, or else the first.
const Score::Part* find_part(const Score& score) noexcept {
  const Score::Part* found = nullptr;
  for (std::uint32_t i = 0; i < std::min<std::size_t>(score.count, score.parts.size()); ++i) {
    const Score::Part& part = score.parts[i];
    if (part.executable != program.executable || process.room->played[i].load(std::memory_order_relaxed)) continue;
    if (part.arguments == program.arguments) return &part;
    if (found == nullptr) found = &part;
  }
  return found;
}

}  // namespace

const Score* map_score(int file) noexcept {
  void* const score = mmap(OwnPlace::take(Score::kMostBytes), Score::kMostBytes, PROT_READ, MAP_SHARED, file,
                           static_cast<off_t>(Room::score_at()));
  return score == MAP_FAILED ? nullptr : static_cast<const Score*>(score);
}

void know_program() noexcept {
  program.executable = executable_now();
  program.arguments = arguments_now();
  program.anchors.at[Anchors::image] = PageNo{getauxval(AT_PHDR) >> kPageShift};
  program.anchors.at[Anchors::heap] = PageNo::of(sbrk(0));
  program.anchors.at[Anchors::mappings] =
      PageNo::of(&program);  // the loader mapped us before anything of the program's
}

void note_program(TraceRing& ring, std::uint64_t time) noexcept {
  ring.note(time, {TraceNote::executable, program.executable});
  ring.note(time, {TraceNote::arguments, program.arguments});
  ring.note(time, {TraceNote::image, program.anchors.at[Anchors::image].value});
  ring.note(time, {TraceNote::heap, program.anchors.at[Anchors::heap].value});
  ring.note(time, {TraceNote::mappings, program.anchors.at[Anchors::mappings].value});
}

const Prefetcher& choose_prefetcher() noexcept {
  const Prefetch choice = process.room->prefetch;
  return choice == Prefetch::record ? recorded : prefetcher_of(choice);
}

void begin_playing() noexcept {
  if (process.score == nullptr) return;
  recorded.play({}, {});
  while (const Score::Part* const part = find_part(*process.score)) {
    auto& played = process.room->played[static_cast<std::size_t>(part - process.score->parts.data())];
    if (played.exchange(true, std::memory_order_relaxed)) continue;  // another was faster
    return recorded.play(sequence_of(*process.score, *part), program.anchors);
  }
}

}  // namespace comex::runtime
