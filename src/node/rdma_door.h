// Where clients come in by RDMA: accepts connections, and hears when they end.
//
// A connection asks to be made before anything is proved. It is made, with nothing that it can reach: one that says it
// is to be a lane is made in the domain of the client it names, and opened by open_lane() when it has proved to be that
// client's; all others are made in a domain in which nothing is registered but buffers for messages.
//
// Thread safety: one thread, the control loop's.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "fabric/rdma_stream.h"
#include "node/ledger.h"
#include "node/rdma_slabs.h"

namespace comex {

class RdmaDoor {
 public:
  // "host:port"; an empty host is all addresses, port 0 picks a free one.
  static Expected<std::unique_ptr<RdmaDoor>> open(const std::string& listen);
  ~RdmaDoor();
  RdmaDoor(const RdmaDoor&) = delete;
  RdmaDoor& operator=(const RdmaDoor&) = delete;

  [[nodiscard]] int fd() const { return events_->fd; }
  [[nodiscard]] std::uint16_t port() const { return port_; }

  // Handles what has happened. `take` gets new connections.
  using Take = std::function<void(std::unique_ptr<Stream>, Arrival)>;
  void serve(Ledger& ledger, const Take& take);

 private:
  explicit RdmaDoor(const RdmaLibrary& library) : library_(library) {}
  Expected<void> listen(const std::string& where);
  void device_gone();
  Expected<void> let_in(rdma_cm_id* id, const rdma_conn_param& asked, Ledger& ledger, const Take& take);

  const RdmaLibrary& library_;
  rdma_event_channel* events_ = nullptr;
  rdma_cm_id* listener_ = nullptr;  // null once its device has been removed
  std::string where_;
  std::uint16_t port_ = 0;
  std::map<ibv_context*, std::shared_ptr<RdmaDomain>> lobbies_;
};

// Lets the client read and write its family's slabs by this connection, from now on. Errc::denied if the connection was
// made for somebody else. REQUIRES: it came in by RDMA and has proved to be a lane of this client.
Expected<void> open_lane(Stream& stream, const Client& client);

}  // namespace comex
