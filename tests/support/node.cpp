#include "support/node.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstdlib>
#include <stdexcept>

#include "support/pages.h"
#include "support/wait.h"

namespace comex::test {

std::string over_name(Over over) {
  switch (over) {
    case Over::shm: return "shm";
    case Over::tcp: return "tcp";
    case Over::tls: return "tls";
    case Over::rdma: return "rdma";
    case Over::relayed: return "relayed";
  }
  return "?";
}

std::ostream& operator<<(std::ostream& out, Over over) {
  return out << over_name(over);
}

std::vector<Over> media() {
  std::vector<Over> media{Over::shm, Over::tcp, Over::tls};
  if (std::getenv("COMEX_TEST_RDMA") != nullptr) media.push_back(Over::rdma);
  return media;
}

ServerConfig TestNode::config() {
  ServerConfig config;
  config.memory = kMemory;
  config.lock = false;  // the limit for locked memory is small for ordinary users
  config.huge_pages = false;
  config.secret = kSecret;
  config.nid = NodeId{7};
  return config;
}

TestNode::TestNode(Over over, ServerConfig config) {
  config.listen = "127.0.0.1:0";
  config.socket = folder_.path("node.sock");
  if (over == Over::rdma) {
    config.rdma = std::string(std::getenv("COMEX_TEST_RDMA")) + ":0";
    // In an emulated machine. Pages do not renew the lease here.
    config.handshake_timeout = kPatience;
    if (config.lease == ServerConfig{}.lease) config.lease = 4 * kPatience;
  }
  if (over == Over::tls) {
    authority_ = std::make_unique<Authority>(folder_, "authority");
    if (config.tls.certificate.empty()) {
      const auto files = authority_->sign("node", "IP:127.0.0.1");
      config.tls.certificate = files.certificate;
      config.tls.key = files.key;
    }
  }
  auto started = Server::start(config);
  if (!started) throw std::runtime_error("the node does not start: " + started.error().message);
  server_ = *std::move(started);
}

Url TestNode::url(Over over) const {
  switch (over) {
    case Over::shm: return *server_->unix_url();
    case Over::rdma: {
      Url url = *server_->rdma_url();
      if (const char* const device = std::getenv("COMEX_TEST_RDMA_FROM")) url.device = device;
      return url;
    }
    default: return *server_->tcp_url();
  }
}

LinkOptions TestNode::options(Over over) const {
  LinkOptions options;
  options.nid = NodeId{1};
  options.name = "test";
  // A test that means to see a time-out sets a shorter one; otherwise a busy machine must not be taken for a dead one.
  options.connect_timeout = options.control_timeout = options.transfer_timeout = kPatience;
  if (over != Over::shm) options.secret = kSecret;
  if (over == Over::tls && authority_) options.tls.ca = authority_->file();
  return options;
}

std::unique_ptr<Link> TestNode::connect(Over over) const {
  return connect(over, options(over));
}

std::unique_ptr<Link> TestNode::connect(Over over, const LinkOptions& options) const {
  auto link = comex::connect(url(over), options);
  if (!link) {
    ADD_FAILURE() << "cannot connect over " << over << ": " << link.error().message;
    throw std::runtime_error(link.error().message);
  }
  return *std::move(link);
}

std::unique_ptr<Link> TestNode::resume(Over over, const Session& session) const {
  auto with_session = options(over);
  with_session.resume = session;
  return connect(over, with_session);
}

bool TestNode::all_free_soon() const {
  return wait_until([&] { return free_frames() == frames(); });
}

std::vector<Extent> granted(Link& link, std::uint32_t frames, unsigned min_order) {
  std::vector<Extent> extents;
  for (std::uint64_t have = 0; have < frames; have = total_frames(extents)) {
    auto reply = link.grant(frames - static_cast<std::uint32_t>(have), min_order);
    if (!reply) {
      ADD_FAILURE() << "no grant: " << reply.error().message;
      throw std::runtime_error(reply.error().message);
    }
    extents.insert(extents.end(), reply->extents.begin(), reply->extents.end());
  }
  return extents;
}

Extent granted_extent(Link& link, std::uint32_t frames) {
  const auto extents = granted(link, frames, static_cast<unsigned>(std::countr_zero(frames)));
  if (extents.size() != 1 || extents[0].count != frames) {
    ADD_FAILURE() << "a grant of " << frames << " frames came in " << extents.size() << " extents";
    throw std::runtime_error("not one extent");
  }
  return extents[0];
}

}  // namespace comex::test
