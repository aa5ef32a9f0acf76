// Keeps one member: connects, beats, refills, returns frames, reconnects. One small thread per node.
//
// Why a thread each: a control call may take as long as its time-out, and connecting to a host that does not answer
// takes longer. With one thread for all, one dead node would hold up the refills and, worse, the beats of every other,
// and a client that falls silent loses its frames everywhere. A pool has tens of nodes; tens of sleeping threads cost a
// few KiB each.
//
// Coming back. A broken link is closed (pool/link_gate.h) and opened again with back-off and jitter, resuming the
// session: the frames are still there if the node is the same process and the lease holds. What was under way:
//  - a transfer: completed with an error; staging writes the pages elsewhere, a reader reads again.
//  - a return: it may or may not have reached the node. It is sent again before anything else, while no frame of it can
//    have been granted anew; if it did arrive the first time the node refuses the second as a whole, which is ignored.
//  - a grant: frames that the node gave and we never heard of stay ours without our knowing, until the session ends.
// Potential weakness: a request that still lies in an old connection's buffer when the resumed session has moved on
// could return or overwrite frames that were granted again since. The answer is the node's: once it has confirmed a
// resumption, nothing in older connections has an effect. See "Coming back" in docs/design-notes.md.
//
// Losing a session. The node says "fenced" (it restarted, or its lease ran out on us), or it has not been heard for
// longer than the lease, after which it will say so. Then: close the link, drop what was at hand, give the member a new
// id, report the loss, and only then begin a new session. When no frame was in use nothing is lost, nothing is reported
// and the id stays.
//
// Thread safety: start, request_stop, finish and tried from any thread; the rest belongs to the keeper's own.
// Fault path: nothing. The thread has all signals blocked, so that no handler of the program ever runs on it.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "fabric/connect.h"
#include "pool/backoff.h"
#include "pool/member.h"
#include "pool/refill.h"
#include "pool/slab_ledger.h"

namespace comex {

using Connector = std::function<Expected<std::unique_ptr<Link>>(const Url&, const LinkOptions&)>;

class Keeper {
 public:
  // Called on the keeper's thread, with no lock held. None may be empty.
  struct Hooks {
    std::function<std::optional<NodeId>()> new_id;  // for a session after a loss; nothing: no more are to be had
    std::function<void()> changed;                  // state, refusing or load changed: plan again
    std::function<void()> frames_arrived;
    std::function<void(const Loss&)> lost;         // the next session begins when it returns
    std::function<void(std::string_view)> notice;  // one line for people
  };

  // `nodes` is M of the refill model.
  Keeper(Member& member, LinkOptions options, Connector connector, unsigned nodes, std::uint64_t seed, Hooks hooks);
  ~Keeper();
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;

  void start();
  // The first attempt to connect is over.
  [[nodiscard]] bool tried() const { return tried_.load(std::memory_order_acquire); }
  void request_stop() noexcept;
  // Says bye and joins the thread; a call still under way at the deadline is cut short. REQUIRES: request_stop().
  void finish(const Deadline& deadline);

 private:
  using Time = Clock::time_point;

  void run();
  [[nodiscard]] Time next_wake() const;
  void leave();

  // --- without a link ---
  void reconnect();
  bool attach(std::unique_ptr<Link> link);
  bool pick_up_session(Link& link);
  bool not_picked_up(const Error& error);
  [[nodiscard]] Time lease_end() const { return heard_at_ + lease_; }
  void try_later();
  [[nodiscard]] Nanos beat_interval() const;

  // --- with a link; those that return bool say whether it still stands ---
  void tend();
  bool beat();
  bool refill();
  bool send_returns();
  bool send_unused();
  bool hear_asked(std::uint32_t frames);
  bool send_asked();
  bool send(std::vector<Extent> extents);
  void accept(const wire::GrantReply& reply);
  void refused(const Error& error);
  void heard(Nanos took);
  void judge_speed(Nanos took);
  void update_load(const wire::NodeLoad& load);
  void update_threshold();
  [[nodiscard]] bool wants_frames() const;

  // --- when things go wrong ---
  // The link is of no use any more. Always returns false.
  bool failed(const Error& error);
  void lose(const std::string& reason);
  void remember(const std::string& error);
  void tell(const std::string& what) const;

  Member& member_;
  const LinkOptions options_;
  const Connector connector_;
  const unsigned nodes_;
  const Hooks hooks_;

  std::thread thread_;
  std::atomic<bool> stopping_{false};
  std::atomic<bool> tried_{false};
  std::atomic<bool> ended_{false};
  EventCount end_;

  std::optional<Session> session_;
  bool given_up_ = false;        // no more ids: this node is not used again
  std::vector<Extent> sending_;  // a return whose reply has not come
  SlabLedger slabs_;
  bool asked_ = false;  // to move frames elsewhere, when the node was last heard
  RefillEstimator estimator_;
  Backoff backoff_;
  Backoff ask_backoff_;
  Nanos lease_{0};
  Time heard_at_{};
  Time try_at_{};
  Time beat_at_{};
  Time ask_at_{};
  Time decayed_at_{};
};

}  // namespace comex
