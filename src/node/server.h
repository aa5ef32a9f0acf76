// A memory node: an arena, a ledger of who holds what, and the sockets clients come in by. `comex serve` is this.
//
//            listeners (tcp, rdma, unix)
//                  |  accept
//          control loop (1 thread): handshakes, control calls, leases
//                  |  data connections, once proved
//          lane loops (n threads): reads and writes of pages, straight between socket and arena. Over RDMA the device
//          does
//                                that, and nobody runs here
//          puller (4 threads): pages that clients have us fetch from other nodes (node/puller.h)
//
// Thread safety: start, stop and the observers may be called from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/expected.h"
#include "fabric/tls_config.h"
#include "fabric/url.h"
#include "wire/message.h"

namespace comex {

struct ServerConfig {
  std::uint64_t memory = 0;  // bytes to lend; a multiple of the slab size is taken, rounded down
  bool lock = true;          // mlock the arena
  bool ahead = true;         // allocate all of it before the first client comes
  bool huge_pages = true;    // use huge pages where the host has free ones
  std::function<void(std::uint64_t bytes)> progress = nullptr;  // so many more bytes of it are ready
  std::string listen;                                           // "host:port" for TCP; port 0 picks one; empty: no TCP
  std::string rdma;                                             // "host:port" for RDMA; empty: no RDMA
  std::string socket;                                           // path of the Unix socket, or "@name"; empty: none
  unsigned socket_mode = 0600;                                  // its permissions: who may use shared memory
  std::string secret;                                           // bytes; empty: none (loopback addresses only)
  TlsServerConfig tls;
  NodeId nid;
  Millis lease{10'000};             // a client silent for longer loses its frames
  Millis handshake_timeout{5'000};  // from accept to proved
  Millis stall_timeout{10'000};     // a message begun must be complete within this
  unsigned lane_threads = 0;        // 0: one per core, at most 4
  unsigned max_connections = 4096;
  unsigned max_clients = 1024;
  std::uint16_t version = wire::kVersion;  // the latest protocol to speak. For tests
  Nanos max_spin{100'000};                 // the longest a lane loop spins before it sleeps; 0: never
};

// Why a node is to have less memory than it began with. The smallest of what they allow counts.
enum class LendLimit : std::uint8_t { configuration, operator_word, pressure };
inline constexpr std::size_t kLendLimits = 3;

class Server {
 public:
  // Allocates and locks the arena, opens the listeners and serves. The error is one line a user can act on.
  static Expected<std::unique_ptr<Server>> start(const ServerConfig& config);
  // Stops serving: closes listeners and connections, joins the threads, removes the Unix socket.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Where clients can come in, with the ports that were picked.
  [[nodiscard]] std::optional<Url> tcp_url() const;
  [[nodiscard]] std::optional<Url> rdma_url() const;
  [[nodiscard]] std::optional<Url> unix_url() const;
  [[nodiscard]] wire::StatusReply status() const;

  // At most so many bytes are to be in memory from now on, and no more than at the start. Clients are asked to move
  // what is beyond that.
  void limit(LendLimit why, std::uint64_t bytes);

 private:
  class Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace comex
