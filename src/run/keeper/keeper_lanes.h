// Lanes for processes: opening them without making the keeper's loop wait, and ending them so that nothing of them can
// have an effect afterwards.
//
// Why ending matters. A process dies with a write half-way to the node. The bytes are in the connection's buffers; the
// node will serve them, for it serves one client, the keeper, and that client holds the frame. If the frame had another
// holder by then, the late write would destroy its page. So before the frames of a dead process are anybody's, each of
// its lanes is seen to its end: the keeper has kept a descriptor of it, sends the end of the stream (which comes after
// everything the process sent), and reads until the node has closed its side: then it has served or dropped all of it.
// A lane whose end cannot be seen (it was shut by the process, or timed out) is left to the session: the keeper has the
// link resumed, after which the node serves nothing of older connections ("Coming back" in docs/design-notes.md).
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "base/fd.h"
#include "fabric/connect.h"
#include "pool/location.h"
#include "run/keeper/lane_relay.h"

namespace comex {

// Opens lanes, on a thread for each node that some are wanted of: one that hangs keeps those who need another node from
// nothing. Thread safety: all functions from any thread.
class LaneOpener {
 public:
  struct Job {
    std::uint64_t process = 0;
    NodeId node;
    std::uint64_t link = 0;  // Link::number() of the pool's link when the job was made
    Url url;
    Session session;
    unsigned lanes = 1;
    bool relayed = false;  // by this process: lane_relay.h
  };
  struct Result {
    Job job;
    std::vector<Fd> lanes;  // all, or none and why
    std::vector<Fd> desks;  // relayed: the memory of each
    Error error;
  };

  // `wake` is an eventfd to write to when there is a result. REQUIRES: the pool outlives this.
  LaneOpener(Pool& pool, int wake);
  // Waits for the connections that are being made.
  ~LaneOpener();

  void open(Job job);
  std::vector<Result> results();

 private:
  // What is to be done at one node, in order.
  struct Queue {
    std::deque<Job> jobs;
    bool over = false;  // the thread has found no more to do, and does not look again
    std::thread thread;
  };
  void run(Queue& queue);
  void bury_dead();
  Result serve(Job job);
  Expected<void> open_one(Result& result);

  const LinkOptions options_;
  LaneRelay relay_;
  const int wake_;
  std::mutex mutex_;                       // guards all below
  std::map<std::uint16_t, Queue> queues_;  // by node; those that are over go when the next is wanted
  std::vector<Result> results_;
  bool stopping_ = false;
};

enum class LaneEnd {
  waiting,  // the node has not closed it yet
  clean,    // the node has served or dropped everything that was sent
  unclean,  // that cannot be known
};
// Starts to end a lane that its process can no longer use. Then see_lane_end() whenever it is readable.
LaneEnd begin_lane_end(int lane) noexcept;
LaneEnd see_lane_end(int lane) noexcept;

}  // namespace comex
