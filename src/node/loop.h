// A thread that moves peers along: waits for sockets (epoll), steps those that are ready, closes those that are done or
// overdue. The control loop and the lane loops are of this class; they differ in their hooks.
//
// Thread safety: adopt, stop from any thread; the hooks run on the loop's own thread.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/expected.h"
#include "base/fd.h"
#include "base/spin.h"
#include "node/peer.h"

namespace comex {

class Loop {
 public:
  struct Hooks {
    // Descriptors to watch besides peers, and what to do when one is readable (listeners).
    std::vector<std::pair<int, std::function<void(Loop&)>>> watched;
    // Takes over a peer that asked for it.
    std::function<void(Loop&, std::unique_ptr<Peer>)> hand_over;
    // Runs at least every `tick`. True: there is more to do, run again before sleeping.
    std::function<bool()> tick;
  };

  static Expected<std::unique_ptr<Loop>> start(Nanos max_spin, Millis tick, Hooks hooks);
  // Stops the thread and closes all peers.
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  void adopt(std::unique_ptr<Peer> peer);
  // The same at once. REQUIRES: on the loop's own thread (in a hook).
  void admit(std::unique_ptr<Peer> peer);
  // Closes the peer for which `since` is earliest. False if there is none. REQUIRES: on the loop's own thread (in a
  // hook).
  bool drop_longest(const std::function<std::optional<Clock::time_point>(const Peer&)>& since);
  [[nodiscard]] std::size_t peers() const { return peer_count_.load(std::memory_order_relaxed); }

 private:
  Loop(Nanos max_spin, Millis tick, Hooks hooks);
  void run();
  // Waits for at most `timeout_ms` and handles what is ready. True if anything was.
  bool handle_ready(int timeout_ms);
  // True if any came.
  bool take_in();
  void enter(std::unique_ptr<Peer> peer);
  void step(Peer& peer);
  void step_again();
  void tend();
  void watch(int fd, std::uint32_t events, int operation);

  struct Entry {
    std::unique_ptr<Peer> peer;
    Peer::Want want = Peer::Want::read;
  };

  Fd epoll_;
  Fd wake_;  // eventfd
  SpinPolicy spin_;
  const Millis tick_;
  Hooks hooks_;
  std::unordered_map<int, Entry> peers_;  // by descriptor; the loop's thread only
  std::vector<int> again_;                // of peers that have more to do; the loop's thread only
  std::atomic<std::size_t> peer_count_{0};
  Clock::time_point next_tick_ = Clock::now();
  bool hurry_ = false;  // the tick has more to do

  std::mutex inbox_mutex_;
  std::vector<std::unique_ptr<Peer>> inbox_;  // guarded by inbox_mutex_
  std::atomic<bool> stopping_{false};
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace comex
