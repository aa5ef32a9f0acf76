// One end of a reliable RDMA connection: a queue pair, its completions, and what becomes of the connection. RdmaStream
// sends bytes through it, RdmaLane reads and writes the node's frames.
//
//   client:  reach() --> post receives --> connect()        node:  adopt() --> post receives --> accept()
//
// Thread safety: cut(), drop() and post() from any thread. Of the rest, hear(), arm() and poll() by one thread at a
// time. Fault path: nothing here is for the inside of programs.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <memory>
#include <span>
#include <string>

#include "base/clock.h"
#include "base/expected.h"
#include "base/fd.h"
#include "base/mutex.h"
#include "fabric/rdma_domain.h"
#include "fabric/rdma_library.h"
#include "fabric/url.h"
#include "wire/types.h"

namespace comex {

// What a connection request says before anything else: whose lane it is going to be, so that the node can make its end
// in the right domain. It proves nothing, and opens nothing.
struct RdmaCall {
  static constexpr std::uint32_t kMagic = 0x52584d43;  // "CMXR"
  std::uint32_t magic = kMagic;
  std::uint32_t version = 1;
  std::uint64_t client = 0;  // 0: not a lane
};

class RdmaEndpoint {
 public:
  struct Shape {
    std::uint32_t sends = 0;     // that can be on their way at once, one-sided ones among them
    std::uint32_t receives = 0;  // buffers that can be posted
    std::uint32_t places = 1;    // of memory here, that one request can name; the device may want fewer
  };

  // --- client ---
  // A connection to be, to one of the node's addresses: the way is known, the queue pair made. `timeout`: after how
  // long without an answer from the node operations should end.
  static Expected<std::shared_ptr<RdmaEndpoint>> reach(const Url& url, sockaddr& to, std::shared_ptr<RdmaDomain> domain,
                                                       Shape shape, Millis timeout, const Deadline& deadline);
  Expected<void> connect(const RdmaCall& call, const Deadline& deadline);

  // --- node ---
  // For a connection that is asked for. Its events come to the listener, who finds this in rdma_cm_id::context. Owns
  // the id once it has succeeded. Nothing can be reached by it before open(): so it is not the connection manager
  // that leads the queue pair through its states, for it would allow everything on the way.
  static Expected<std::shared_ptr<RdmaEndpoint>> adopt(rdma_cm_id* id, std::shared_ptr<RdmaDomain> domain, Shape shape);
  Expected<void> accept(const rdma_conn_param& asked);
  // Back to the listener, to be refused.
  void disown() noexcept;
  // From now on the other side may read and write what is registered in the domain.
  Expected<void> open();

  ~RdmaEndpoint();
  RdmaEndpoint(const RdmaEndpoint&) = delete;
  RdmaEndpoint& operator=(const RdmaEndpoint&) = delete;

  [[nodiscard]] RdmaDomain& domain() { return *domain_; }
  // Sends of up to so many bytes can be handed to the device with the request.
  [[nodiscard]] std::uint32_t most_inline() const { return most_inline_; }
  // A request can name so many places of memory here; at least one.
  [[nodiscard]] std::uint32_t most_places() const { return most_places_; }

  // --- requests ---
  // The first of a list, which is on its way then. False: the device takes no more, or this was dropped.
  bool post(ibv_send_wr& first) noexcept;
  bool post(ibv_recv_wr& first) noexcept;

  // --- completions ---
  // How many came; negative: the device failed.
  int poll(std::span<ibv_wc> into) noexcept {
    return ibv_poll_cq(completions_, static_cast<int>(into.size()), into.data());
  }
  // fd() becomes readable with the next completion. One that came before may not be noticed: poll() afterwards.
  void arm() noexcept;
  // Readable after a completion, if arm() was called before it; and, at the client, when the connection has ended.
  [[nodiscard]] int fd() const { return watched_ ? watched_.get() : notices_->fd; }
  // Whether the connection still stands, as far as is known. Does not wait.
  bool hear() noexcept;

  // Ends the connection: what is on its way is completed with an error, what comes is refused.
  void cut() noexcept;
  // The same for good. When it returns, neither side's operations touch memory any more, nor will they.
  void drop() noexcept;

 private:
  explicit RdmaEndpoint(std::shared_ptr<RdmaDomain> domain) : library_(domain->library()), domain_(std::move(domain)) {}
  Expected<void> find_way(const Url& url, sockaddr& to, Millis timeout, const Deadline& deadline);
  Expected<void> make_queues(Shape shape);
  [[nodiscard]] ibv_qp* make_pair(ibv_pd* domain, ibv_qp_init_attr& wanted);
  bool advance(ibv_qp_state state, std::uint8_t reads) noexcept;
  Expected<void> await(rdma_cm_event_type wanted, const std::string& peer, const Deadline& deadline);
  [[nodiscard]] std::uint8_t reads_at_once() const;
  [[nodiscard]] std::uint32_t places_at_once(std::uint32_t wanted) const;

  const RdmaLibrary& library_;
  const std::shared_ptr<RdmaDomain> domain_;
  std::string peer_;                      // for messages
  rdma_event_channel* events_ = nullptr;  // the client's own
  rdma_cm_id* id_ = nullptr;
  ibv_qp* qp_ = nullptr;
  ibv_comp_channel* notices_ = nullptr;
  ibv_cq* completions_ = nullptr;
  Fd watched_;  // epoll: completions and events; at the client
  std::uint32_t most_inline_ = 0;
  std::uint32_t most_places_ = 1;
  bool ended_ = false;  // by hear()
  Mutex mutex_;         // the last one taken; guards the end of the queue pair against those who use it
};

// The ACK time-out, as InfiniBand counts it (4.096 us times 2^n), with which a device that keeps to it has sent a
// packet for the last time within `timeout`.
std::uint8_t rdma_ack_timeout(Millis timeout);

}  // namespace comex
