// TLS: who is trusted, who is not, and what an end of the connection is called.
#include <gtest/gtest.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <thread>

#include "fabric/socket.h"
#include "support/certificates.h"
#include "support/node.h"
#include "support/pages.h"
#include "support/raw_client.h"

namespace comex::test {
namespace {

class Tls : public testing::Test {
 protected:
  // A node with this certificate; clients need one signed by `client_ca`, if it is given.
  TestNode& start(const CertificateFiles& files, const std::string& client_ca = "") {
    auto config = TestNode::config();
    config.tls = TlsServerConfig{files.certificate, files.key, client_ca};
    node_ = std::make_unique<TestNode>(Over::tls, config);
    return *node_;
  }
  LinkOptions trusting(const Authority& authority) const {
    auto options = node_->options(Over::tls);
    options.tls.ca = authority.file();
    return options;
  }
  // Refused promptly, in one line, and not because of a time-out.
  void expect_denied(const Url& url, const LinkOptions& options) {
    const auto start = Clock::now();
    const auto link = comex::connect(url, options);
    ASSERT_FALSE(link);
    EXPECT_EQ(link.error().code, Errc::denied) << link.error().message;
    EXPECT_NE(link.error().message.find("TLS"), std::string::npos) << link.error().message;
    EXPECT_EQ(link.error().message.find('\n'), std::string::npos);
    EXPECT_LT(Clock::now() - start, Millis(5000));
    EXPECT_EQ(node_->clients(), 0U);
  }

  TestFolder folder_;
  Authority ours_{folder_, "ours"};
  Authority theirs_{folder_, "theirs"};
  std::unique_ptr<TestNode> node_;
};

TEST_F(Tls, a_certificate_of_a_trusted_authority_is_accepted) {
  auto& node = start(ours_.sign("node", "IP:127.0.0.1"));
  EXPECT_TRUE(node.connect(Over::tls, trusting(ours_))->beat());
}

TEST_F(Tls, an_unknown_authority_is_refused) {
  auto& node = start(theirs_.sign("node", "IP:127.0.0.1"));
  expect_denied(node.url(Over::tls), trusting(ours_));
}

TEST_F(Tls, without_an_authority_of_our_own_the_system_decides) {
  auto& node = start(ours_.sign("node", "IP:127.0.0.1"));
  auto options = trusting(ours_);
  options.tls.ca.clear();
  expect_denied(node.url(Over::tls), options);
}

TEST_F(Tls, a_certificate_for_another_host_is_refused) {
  for (const std::string names : {"DNS:other.example", "IP:127.0.0.2", "DNS:127.0.0.1", ""}) {
    auto& node = start(ours_.sign("node", names));
    expect_denied(node.url(Over::tls), trusting(ours_));
  }
}

TEST_F(Tls, a_host_name_is_checked_against_names) {
  auto& node = start(ours_.sign("node", "DNS:localhost"));
  auto url = node.url(Over::tls);
  url.host = "localhost";
  const auto by_name = comex::connect(url, trusting(ours_));
  ASSERT_TRUE(by_name) << by_name.error().message;
  (*by_name)->bye();
  expect_denied(node.url(Over::tls), trusting(ours_));
}

TEST_F(Tls, a_client_without_a_certificate_is_refused_where_one_is_required) {
  auto& node = start(ours_.sign("node", "IP:127.0.0.1"), ours_.file());
  expect_denied(node.url(Over::tls), trusting(ours_));
  auto options = trusting(ours_);
  const auto foreign = theirs_.sign("foreign", "");
  options.tls.certificate = foreign.certificate;
  options.tls.key = foreign.key;
  expect_denied(node.url(Over::tls), options);
  const auto own = ours_.sign("client", "");
  options.tls.certificate = own.certificate;
  options.tls.key = own.key;
  EXPECT_TRUE(node.connect(Over::tls, options)->beat());
  // The secret is still asked for.
  options.secret = "another secret for tests";
  const auto link = comex::connect(node.url(Over::tls), options);
  ASSERT_FALSE(link);
  EXPECT_EQ(link.error().code, Errc::denied);
}

TEST_F(Tls, a_key_that_does_not_fit_is_told_at_the_start) {
  auto config = TestNode::config();
  const auto one = ours_.sign("one", "IP:127.0.0.1");
  const auto other = ours_.sign("other", "IP:127.0.0.1");
  config.listen = "127.0.0.1:0";
  for (const auto& tls :
       {TlsServerConfig{one.certificate, other.key, ""}, TlsServerConfig{folder_.path("missing"), one.key, ""},
        TlsServerConfig{one.certificate, folder_.path("missing"), ""},
        TlsServerConfig{one.certificate, one.key, folder_.path("missing")}}) {
    config.tls = tls;
    const auto server = Server::start(config);
    ASSERT_FALSE(server);
    EXPECT_EQ(server.error().message.find('\n'), std::string::npos) << server.error().message;
  }
}

TEST_F(Tls, older_versions_are_refused) {
  auto& node = start(ours_.sign("node", "IP:127.0.0.1"));
  const auto socket = connect_tcp("127.0.0.1", node.url(Over::tls).port, Deadline(kPatience));
  ASSERT_TRUE(socket);
  const std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)> context(SSL_CTX_new(TLS_client_method()), SSL_CTX_free);
  SSL_CTX_set_max_proto_version(context.get(), TLS1_2_VERSION);
  const std::unique_ptr<SSL, void (*)(SSL*)> ssl(SSL_new(context.get()), SSL_free);
  SSL_set_fd(ssl.get(), socket->get());
  int outcome = -1;
  const Deadline deadline(kPatience);
  do {
    outcome = SSL_connect(ssl.get());
  } while (outcome < 0 && SSL_get_error(ssl.get(), outcome) == SSL_ERROR_WANT_READ &&
           wait_ready(socket->get(), POLLIN, deadline));
  EXPECT_NE(outcome, 1);
  ERR_clear_error();
}

TEST_F(Tls, plain_bytes_to_a_tls_port_are_refused) {
  auto& node = start(ours_.sign("node", "IP:127.0.0.1"));
  auto url = node.url(Over::tls);
  url.scheme = Url::Scheme::tcp;
  const auto start_time = Clock::now();
  const auto link = comex::connect(url, node.options(Over::tcp));
  ASSERT_FALSE(link);
  EXPECT_NE(link.error().code, Errc::timeout);
  EXPECT_LT(Clock::now() - start_time, Millis(3000)) << "the node could have told at the first byte";
  EXPECT_TRUE(node.connect(Over::tls, trusting(ours_))->beat());
}

TEST_F(Tls, tls_to_a_plain_port_is_refused) {
  start(ours_.sign("node", "IP:127.0.0.1"));
  TestNode plain(Over::tcp);
  auto url = plain.url(Over::tcp);
  url.scheme = Url::Scheme::tls;
  const auto start_time = Clock::now();
  const auto link = comex::connect(url, trusting(ours_));
  ASSERT_FALSE(link);
  EXPECT_NE(link.error().code, Errc::timeout);
  EXPECT_LT(Clock::now() - start_time, Millis(3000));
  EXPECT_TRUE(plain.connect(Over::tcp)->beat());
}

// A node that goes away is gone, not untrusted: what a client does next depends on which.
TEST_F(Tls, the_end_of_a_connection_is_no_question_of_trust) {
  start(ours_.sign("node", "IP:127.0.0.1"));
  const auto calling = node_->connect(Over::tls, trusting(ours_));
  const auto moving = node_->connect(Over::tls, trusting(ours_));
  const Extent frames = granted_extent(*moving, 8);
  node_.reset();
  const auto beat = calling->beat();
  ASSERT_FALSE(beat);
  EXPECT_EQ(beat.error().code, Errc::disconnected) << beat.error().message;
  EXPECT_EQ(calling->broken(), Errc::disconnected) << to_string(calling->broken());
  Pages pages(8);
  EXPECT_EQ(read(*moving, frames, pages), Errc::disconnected);
  EXPECT_EQ(moving->broken(), Errc::disconnected) << to_string(moving->broken());
}

// The program that uses a link may use OpenSSL itself, and leave errors in the queue of its thread.
TEST_F(Tls, errors_that_others_left_in_the_queue_do_not_break_a_link) {
  auto& node = start(ours_.sign("node", "IP:127.0.0.1"));
  const auto link = node.connect(Over::tls, trusting(ours_));
  const Extent frames = granted_extent(*link, 64);
  Pages pages(64, 131);
  for (int i = 0; i < 20; ++i) {
    ERR_raise(ERR_LIB_USER, 1);
    ASSERT_EQ(i % 2 == 0 ? write(*link, frames, pages) : read(*link, frames, pages), Errc::ok) << "transfer " << i;
    ERR_raise(ERR_LIB_USER, 1);
    ASSERT_TRUE(link->beat());
  }
  ERR_clear_error();
}

// A client that sends many requests and then what is no TLS leaves an error behind in the node's thread; the other
// clients that this thread serves have nothing to do with it.
TEST_F(Tls, a_client_that_breaks_off_does_not_take_others_with_it) {
  auto config = TestNode::config();
  config.lane_threads = 1;
  const auto files = ours_.sign("node", "IP:127.0.0.1");
  config.tls = TlsServerConfig{files.certificate, files.key, ""};
  TestNode node(Over::tls, config);
  auto options = node.options(Over::tls);
  options.tls.ca = ours_.file();
  options.lanes = 4;
  const auto good = node.connect(Over::tls, options);
  const Extent frames = granted_extent(*good, 4);
  std::atomic<Errc> worst{Errc::ok};
  std::vector<std::jthread> working;
  for (std::uint32_t i = 0; i < 4; ++i) {
    working.emplace_back([&, i](const std::stop_token& stop) {
      Pages page(1, 132);
      while (!stop.stop_requested()) {
        const Errc result = write(*good, Extent{frames.first + i, 1}, page);
        if (result == Errc::ok) continue;
        worst = result;
        return;
      }
    });
  }
  RawSession bad(node, Over::tls, options);
  // As many requests as the node serves before the next peer has its turn, and right behind them the garbage.
  wire::Bytes many;
  for (std::uint32_t i = 0; i < 64; ++i) {
    const auto one = request(wire::Type::read, i, segments(Extent{FrameNo{node.frames() - 1}, 1}));
    many.insert(many.end(), one.begin(), one.end());
  }
  const std::string garbage(100, 'x');
  for (int round = 0; round < 100 && worst == Errc::ok; ++round) {
    auto lane = bad.join(wire::Purpose::lane);
    ASSERT_TRUE(lane.send(many));
    ASSERT_EQ(::send(lane.stream().fd(), garbage.data(), garbage.size(), MSG_NOSIGNAL), 100);
    EXPECT_TRUE(lane.cut_off());
  }
  EXPECT_EQ(worst, Errc::ok) << to_string(worst);
}

}  // namespace
}  // namespace comex::test
