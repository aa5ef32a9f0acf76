// Pulls pages from other nodes into frames of clients who have asked for it. Threads of its own do so: nobody who
// serves waits for another node. See "Straight from node to node" in docs/design-notes.md.
//
// Thread safety: begin() from one thread, the control loop's. The destructor waits for pulls that are under way, a few
// seconds at most.
//
// Invariants:
//  1. Each page lands under Client::access, after a look that the client holds its frame and has not come back since.
//  2. Once the state of a pull is not under_way, nothing of it lands any more.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/aligned_bytes.h"
#include "base/clock.h"
#include "base/expected.h"
#include "node/arena.h"
#include "node/client.h"
#include "wire/message.h"

namespace comex {

struct PullerConfig {
  unsigned threads = 4;            // as many pulls at once
  std::size_t waiting = 16;        // that wait for a thread
  Millis patience{3'000};          // for a thread
  Millis connect_timeout{1'000};   // until the other node has proved itself
  Millis transfer_timeout{2'000};  // until the pages are here
  unsigned failures_a_second = 8;  // then nobody is served until the second is over: this is no scanner of ports
};

class Puller {
 public:
  Puller(Arena& arena, std::atomic<std::uint64_t>& pages, const PullerConfig& config = {});
  ~Puller();
  Puller(const Puller&) = delete;
  Puller& operator=(const Puller&) = delete;

  // What becomes of it is in client->pulling. `coming`: of the client, when it asked. Errc::busy: not now.
  Expected<void> begin(std::shared_ptr<Client> client, std::uint32_t coming, wire::Pull request);

 private:
  struct Job {
    std::shared_ptr<Client> client;
    std::shared_ptr<Pulling> pulling;
    wire::Pull request;
    Clock::time_point until;  // when nobody has begun with it
  };

  void run();
  bool pull(const Job& job, const AlignedBytes& buffer);
  bool fetch(const Job& job, const AlignedBytes& buffer) const;
  bool land(const Job& job, const AlignedBytes& buffer) const;
  void note_failure();
  [[nodiscard]] bool failed_too_often() const;

  Arena& arena_;
  std::atomic<std::uint64_t>& pages_;
  const PullerConfig config_;
  std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  unsigned failures_ = 0;
  Clock::time_point failures_since_{};
  bool stopping_ = false;
  std::vector<std::thread> threads_;  // last: they use all of the above
};

}  // namespace comex
