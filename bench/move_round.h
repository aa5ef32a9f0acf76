// One round of `comex bench move`: writes pages to frames of the pool with several threads, reads them back and checks
// every byte.
//
// Thread safety: for the one thread that owns it; the threads are inside.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "base/progress.h"
#include "bench/interrupt.h"
#include "pool/pool.h"

namespace comex::bench {

// Pages from `page` on, and the frames they were written to.
struct Piece {
  std::uint64_t page = 0;
  Run run;
};

// Pages are numbered through all rounds, so that one left over from an earlier round cannot pass for one of this.
class MoveRound {
 public:
  MoveRound(Pool& pool, std::uint64_t first_page, std::uint64_t pages, unsigned threads)
      : pool_(pool), next_page_(first_page), left_(pages), pieces_(threads) {}

  // Both return when every thread is done; false: failed() says why.
  bool write(Progress& progress);
  bool check(Progress& progress);

  [[nodiscard]] const Error& failed() const { return *failed_; }
  [[nodiscard]] std::uint64_t wrong_pages() const { return wrong_pages_; }
  [[nodiscard]] std::uint64_t wrong_bytes() const { return wrong_bytes_; }
  // How long the threads waited for frames, on average.
  [[nodiscard]] double seconds_waited() const {
    return static_cast<double>(waited_ns_) / 1e9 / static_cast<double>(pieces_.size());
  }
  [[nodiscard]] const std::vector<std::vector<Piece>>& pieces() const { return pieces_; }

 private:
  // A piece under way, and the memory it comes from or goes to.
  struct Slot {
    std::byte* memory = nullptr;
    Piece piece;
    Segment segment;
    Transfer transfer;
    bool busy = false;
  };

  template <typename Work>
  bool on_all_threads(const Work& work);

  // Keeps kBatchesInFlight pieces under way: `next` gives one or nothing when there are no more, `done` has it when it
  // has been moved.
  template <typename Next, typename Done>
  void move_all(Direction direction, const Next& next, const Done& done);

  std::optional<Run> take();
  Errc wait_for_frames();
  void write_on(unsigned thread, Progress& progress);
  void check_on(unsigned thread, Progress& progress);
  void check(const Slot& slot);
  void fail(Error error) {
    const std::lock_guard lock(failure_mutex_);
    if (!failed_) failed_ = std::move(error);
    stop_ = true;
  }
  [[nodiscard]] bool stopped() const { return stop_.load(std::memory_order_relaxed) || interrupted(); }

  Pool& pool_;
  std::atomic<std::uint64_t> next_page_;
  std::atomic<std::uint64_t> left_;         // pages nobody has set out to write
  std::vector<std::vector<Piece>> pieces_;  // by the thread that wrote them; each is touched by one thread at a time
  std::atomic<std::uint64_t> wrong_pages_{0};
  std::atomic<std::uint64_t> wrong_bytes_{0};
  std::atomic<std::uint64_t> waited_ns_{0};
  std::atomic<bool> stop_{false};
  std::mutex failure_mutex_;  // guards failed_ while threads run
  std::optional<Error> failed_;
};

}  // namespace comex::bench
