// A memory node inside the test's process, on an ephemeral port and a Unix socket in a temporary folder, and links to
// it over every medium.
#pragma once

#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "cli/test_folder.h"
#include "fabric/connect.h"
#include "node/server.h"
#include "support/certificates.h"

namespace comex::test {

// A medium to reach the node over. With tls the node's TCP listener speaks TLS. Relayed, for processes with a keeper:
// the keeper over TCP, they by way of the keeper, as with RDMA.
enum class Over { shm, tcp, tls, rdma, relayed };
// All of them; RDMA only if COMEX_TEST_RDMA says an address of this machine that an RDMA device has.
// COMEX_TEST_RDMA_FROM may name another, to connect from.
std::vector<Over> media();
// Whether pages move without the node's program: it neither looks at each of them, nor hears of the client by them.
[[nodiscard]] inline bool one_sided(Over over) {
  return over == Over::shm || over == Over::rdma;
}
std::ostream& operator<<(std::ostream& out, Over over);
// For INSTANTIATE_TEST_SUITE_P.
std::string over_name(Over over);

class TestNode {
 public:
  static constexpr std::uint64_t kMemory = 16 << 20;  // 8 slabs
  static constexpr const char* kSecret = "a secret for tests only";

  // A configuration that needs no privileges and little memory. Listen addresses are filled in by the constructor.
  static ServerConfig config();

  // `over` says what the TCP listener speaks.
  explicit TestNode(Over over = Over::tcp, ServerConfig config = TestNode::config());

  [[nodiscard]] Server& server() { return *server_; }
  [[nodiscard]] const TestFolder& folder() const { return folder_; }
  [[nodiscard]] const Authority* authority() const { return authority_.get(); }

  [[nodiscard]] Url url(Over over) const;
  [[nodiscard]] LinkOptions options(Over over) const;
  // A new client. Fails the test, and throws, if it cannot come in.
  [[nodiscard]] std::unique_ptr<Link> connect(Over over) const;
  [[nodiscard]] std::unique_ptr<Link> connect(Over over, const LinkOptions& options) const;
  // Comes back to a session, or claims an heir.
  [[nodiscard]] std::unique_ptr<Link> resume(Over over, const Session& session) const;

  [[nodiscard]] std::uint32_t frames() const { return server_->status().frames; }
  [[nodiscard]] std::uint32_t free_frames() const { return server_->status().load.free_frames; }
  [[nodiscard]] std::uint32_t clients() const { return server_->status().client_count; }
  // Until nobody holds anything: replaced slabs take a moment to come back.
  [[nodiscard]] bool all_free_soon() const;

 private:
  TestFolder folder_;
  std::unique_ptr<Authority> authority_;
  std::unique_ptr<Server> server_;
};

// The frames of a grant of exactly `frames` frames. Fails the test, and throws, if the node gives fewer.
std::vector<Extent> granted(Link& link, std::uint32_t frames, unsigned min_order = 0);
// The same where one extent is enough for the test. REQUIRES: frames is a power of two, and at most a slab.
Extent granted_extent(Link& link, std::uint32_t frames);

}  // namespace comex::test
