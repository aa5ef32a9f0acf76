// One client as the node knows it: who it is, what it holds, when it was last heard.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <shared_mutex>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "fabric/stream.h"
#include "node/buddy.h"
#include "node/remote_access.h"
#include "wire/holdings.h"
#include "wire/message.h"

namespace comex {

// How a client reaches frames. Shm clients map slabs, and the devices of RDMA clients reach them, without our looking
// at each page; so each family of these has slabs of its own.
enum class Medium : std::uint8_t { shm, tcp, rdma };
inline constexpr std::size_t kMedia = 3;

// A page shared with an shm client, read-only on its side, in which the node says that the client is fenced.
class FencePage {
 public:
  static Expected<FencePage> make();
  FencePage() = default;
  FencePage(FencePage&& other) noexcept;
  FencePage& operator=(FencePage&& other) noexcept;
  ~FencePage();

  [[nodiscard]] const Fd& fd() const { return fd_; }
  // Seen by the client before anything the node does afterwards.
  void raise() noexcept;

 private:
  Fd fd_;
  std::atomic<std::uint32_t>* word_ = nullptr;
};

// Clients that came from one another by fork and share frames. Over shm and RDMA they share slabs too (a zone of their
// own).
struct Family {
  ZoneId zone = kCommonZone;
  std::uint32_t members = 0;
  std::shared_ptr<RemoteAccess> access;  // RDMA only
};

// What became of a client's last pull (node/puller.h).
struct Pulling {
  explicit Pulling(std::uint32_t the_coming) : coming(the_coming) {}
  const std::uint32_t coming;  // of the client, when it asked
  std::atomic<wire::PullState> state{wire::PullState::under_way};
};

struct Client {
  Client(ClientId the_id, const wire::SessionKey& the_key, Medium the_medium, uid_t the_uid, unsigned slab_order)
      : id(the_id), key(the_key), medium(the_medium), uid(the_uid), holdings(slab_order) {}

  const ClientId id;
  const wire::SessionKey key;
  const Medium medium;
  const uid_t uid;  // of the process at the other end; shm only
  // Set when the client begins; afterwards only the ledger looks at them.
  std::string name;
  std::string peer;
  std::uint32_t pid = 0;
  std::shared_ptr<Family> family;
  FencePage fence;

  // Lanes hold it shared while bytes move between a socket and frames, one non-blocking call at a time, having looked
  // that the frames are held; the ledger holds it exclusively when it takes frames away. So no byte lands in, or
  // leaves, a frame that has changed hands. See "Late writes" in docs/design-notes.md.
  std::shared_mutex access;
  Holdings holdings;  // guarded by access

  // Connections on which the network device serves the client by itself: to be cut before its frames are anybody
  // else's, and before it comes back on others. Guarded by access.
  std::vector<std::weak_ptr<Stream>> direct;
  void cut_direct() noexcept;

  // How often the client has come back. Connections of an earlier coming are dead, whatever is still unread in them:
  // see "Coming back" in docs/design-notes.md. Changed under access, exclusively; lanes look at it under access.
  std::atomic<std::uint32_t> coming{0};

  std::shared_ptr<Pulling> pulling;  // null: there was none. The control loop's alone

  std::atomic<bool> fenced{false};
  std::atomic<std::uint32_t> lanes{0};  // data connections

  void touch(Clock::time_point now) noexcept {
    last_heard_.store(now.time_since_epoch().count(), std::memory_order_relaxed);
  }
  [[nodiscard]] Clock::time_point last_heard() const noexcept {
    return Clock::time_point(Clock::duration(last_heard_.load(std::memory_order_relaxed)));
  }

 private:
  std::atomic<Clock::rep> last_heard_{Clock::now().time_since_epoch().count()};
};

}  // namespace comex
