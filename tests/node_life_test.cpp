// Nodes that stop, die, hang and come back, seen from their clients.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "fabric/dial.h"
#include "fabric/socket.h"
#include "support/certificates.h"
#include "support/node.h"
#include "support/own_address.h"
#include "support/pages.h"
#include "support/process.h"
#include "support/raw_client.h"
#include "support/wait.h"

namespace comex::test {
namespace {

class NodeLife : public testing::TestWithParam<Over> {
 protected:
  // `before`: where the next one should listen to be found at the same place.
  std::vector<std::string> flags(const NodeProcess* before) {
    const auto port_of = [](const std::optional<Url>& url) { return std::to_string(url ? url->port : 0); };
    const std::string port = before != nullptr ? port_of(before->tcp) : "0";
    const std::string host = GetParam() == Over::tls ? "127.0.0.1" : own_address();  // what its certificate says
    std::vector<std::string> flags{"--listen", host + ":" + port, "--socket", folder_.path("node.sock")};
    if (GetParam() == Over::rdma) {
      const std::string address = std::getenv("COMEX_TEST_RDMA");
      flags.insert(flags.end(), {"--rdma", address + ":" + (before != nullptr ? port_of(before->rdma) : "0"),
                                 "--secret-file", folder_.file("secret", TestNode::kSecret)});
    }
    if (GetParam() == Over::tls) {
      const auto files = authority_.sign("node", "IP:127.0.0.1");
      flags.insert(flags.end(), {"--tls-cert", files.certificate, "--tls-key", files.key});
    }
    return flags;
  }
  NodeProcess start(const NodeProcess* before = nullptr) { return start_node(flags(before), folder_.path(".")); }
  static Url url(const NodeProcess& node) {
    return GetParam() == Over::shm ? *node.shm : GetParam() == Over::rdma ? *node.rdma : *node.tcp;
  }
  LinkOptions options() {
    LinkOptions options;
    options.connect_timeout = options.control_timeout = options.transfer_timeout = kPatience;
    options.tls.ca = authority_.file();
    if (GetParam() == Over::rdma) options.secret = TestNode::kSecret;
    return options;
  }
  std::unique_ptr<Link> connect(const NodeProcess& node) {
    auto link = comex::connect(url(node), options());
    EXPECT_TRUE(link) << link.error().message;
    return *std::move(link);
  }

  TestFolder folder_;
  Authority authority_{folder_, "authority"};
};

INSTANTIATE_TEST_SUITE_P(Over, NodeLife, testing::ValuesIn(media()), testing::PrintToStringParamName());

constexpr Millis kPromptly{3000};  // far below the time-outs of these links

TEST_P(NodeLife, sigterm_ends_it_cleanly) {
  auto node = start();
  const auto link = connect(node);
  granted(*link, 100);
  auto half_open = RawPeer::dial(GetParam() == Over::shm ? *node.shm : *node.tcp);
  node.process.signal(SIGTERM);
  EXPECT_EQ(node.process.wait(), 0) << node.process.errors();
  EXPECT_FALSE(std::filesystem::exists(folder_.path("node.sock")));
  EXPECT_FALSE(link->beat());
  EXPECT_TRUE(half_open.closed());
}

TEST_P(NodeLife, sigint_ends_it_cleanly_too) {
  auto node = start();
  node.process.signal(SIGINT);
  EXPECT_EQ(node.process.wait(), 0) << node.process.errors();
  EXPECT_FALSE(std::filesystem::exists(folder_.path("node.sock")));
}

// At once, on the same address, with connections of the last one still being forgotten by the kernel.
TEST_P(NodeLife, restarts_on_the_same_address) {
  for (const int signal : {SIGTERM, SIGKILL}) {
    auto first = start();
    auto link = connect(first);
    const Extent frames = granted_extent(*link, 64);
    Pages pages(64, 141);
    ASSERT_EQ(write(*link, frames, pages), Errc::ok);
    first.process.signal(signal);
    ASSERT_TRUE(first.process.wait());
    auto second = start(&first);
    ASSERT_EQ(url(second), url(first));

    // The old session finds out: by its control call at the latest, and for good by resuming.
    EXPECT_FALSE(link->beat());
    EXPECT_NE(link->broken(), Errc::ok);
    EXPECT_NE(read(*link, frames, pages), Errc::ok);
    auto resuming = options();
    resuming.resume = link->session();
    const auto resumed = comex::connect(url(second), resuming);
    ASSERT_FALSE(resumed);
    EXPECT_EQ(resumed.error().code, Errc::fenced) << resumed.error().message;

    const auto fresh = connect(second);
    const Extent anew = granted_extent(*fresh, 64);
    ASSERT_EQ(read(*fresh, anew, pages), Errc::ok);
    EXPECT_TRUE(pages.are_zeros());
    second.process.signal(SIGTERM);
    EXPECT_EQ(second.process.wait(), 0);
  }
}

// Many threads in the middle of reads when the node is killed: each gets an error, soon. On shared memory the pages
// are still mapped and reads go on, rightly; it is the next control call that tells.
TEST_P(NodeLife, killed_in_the_middle_of_reads) {
  auto node = start();
  auto link = connect(node);
  const Extent frames = granted_extent(*link, 256);
  std::atomic<unsigned> reading{0};
  std::atomic<unsigned> ended{0};
  std::atomic<bool> stop{false};
  std::vector<std::jthread> threads;
  for (int i = 0; i < 6; ++i) {
    threads.emplace_back([&] {
      Pages pages(256);
      bool first = true;
      while (!stop) {
        if (read(*link, frames, pages) != Errc::ok) break;
        if (std::exchange(first, false)) ++reading;
      }
      ++ended;
    });
  }
  ASSERT_TRUE(wait_until([&] { return reading == 6; }));
  node.process.kill();
  const auto start_time = Clock::now();
  const auto beat = link->beat();
  EXPECT_FALSE(beat);
  stop = GetParam() == Over::shm && !beat;
  EXPECT_TRUE(wait_until([&] { return ended == 6; }));
  EXPECT_LT(Clock::now() - start_time, kPromptly);
  EXPECT_NE(link->broken(), Errc::ok);
  Pages pages(256);
  EXPECT_NE(read(*link, frames, pages), Errc::ok);
  stop = true;
}

// A node that hangs is not dead: only the link's own time-outs tell.
TEST_P(NodeLife, a_node_that_hangs_is_given_up_in_time) {
  auto node = start();
  auto short_tempered = options();
  short_tempered.control_timeout = short_tempered.transfer_timeout = Millis(300);
  auto link = comex::connect(url(node), short_tempered);
  ASSERT_TRUE(link);
  const Extent frames = granted_extent(**link, 256);
  auto second = comex::connect(url(node), short_tempered);
  ASSERT_TRUE(second);
  ASSERT_TRUE(node.process.stop());
  // Should something wait for ever, it fails this test instead of stopping it.
  const std::jthread way_out([&](const std::stop_token& stop) {
    (void)wait_until([&] { return stop.stop_requested(); }, 2 * kPromptly);
    node.process.go_on();
  });
  const auto start_time = Clock::now();
  Pages pages(256);
  if (!one_sided(GetParam())) {
    EXPECT_EQ(read(**link, frames, pages), Errc::timeout);
    EXPECT_EQ((*link)->broken(), Errc::timeout);
  } else {
    Pages few(4, 8);
    EXPECT_EQ(write(**link, Extent{frames.first, 4}, few), Errc::ok) << "its program takes no part in this";
    few.clear();
    EXPECT_EQ(read(**link, Extent{frames.first, 4}, few), Errc::ok);
    EXPECT_TRUE(few.are(8));
  }
  const auto beat = (*second)->beat();
  ASSERT_FALSE(beat);
  EXPECT_EQ(beat.error().code, Errc::timeout) << beat.error().message;
  short_tempered.connect_timeout = Millis(300);
  const auto third = comex::connect(url(node), short_tempered);
  ASSERT_FALSE(third);
  EXPECT_EQ(third.error().code, Errc::timeout) << third.error().message;
  EXPECT_LT(Clock::now() - start_time, kPromptly);
  node.process.go_on();
  EXPECT_TRUE(connect(node)->beat()) << "and good again when it has woken up";
}

// Nobody listens: told at once.
TEST_P(NodeLife, nobody_there) {
  auto node = start();
  const Url gone = url(node);
  node.process.signal(SIGTERM);
  ASSERT_EQ(node.process.wait(), 0);
  const auto start_time = Clock::now();
  const auto link = comex::connect(gone, options());
  ASSERT_FALSE(link);
  EXPECT_EQ(link.error().code, Errc::disconnected);
  EXPECT_NE(link.error().message.find("comex serve"), std::string::npos) << link.error().message;
  EXPECT_LT(Clock::now() - start_time, kPromptly);
}

// --- one socket, one node ---

class SocketOfNode : public testing::Test {
 protected:
  Outcome run_second(const std::string& listen) {
    return run_comex(
        {"serve", "--memory", "16M", "--no-lock", "--no-huge-pages", "--listen", listen, "--socket", path_},
        folder_.path("."));
  }
  void expect_refused(const Outcome& outcome) {
    ASSERT_TRUE(outcome.code);
    EXPECT_TRUE(outcome.code == 1 || outcome.code == 2) << *outcome.code;
    ASSERT_EQ(outcome.complaints().size(), 1U) << outcome.errors;
    EXPECT_TRUE(outcome.output.empty()) << outcome.output;
  }

  TestFolder folder_;
  std::string path_ = folder_.path("node.sock");
};

TEST_F(SocketOfNode, a_second_node_is_refused) {
  auto first = start_node({"--listen", "none", "--socket", path_}, folder_.path("."));
  const auto second = run_second("none");
  expect_refused(second);
  EXPECT_NE(second.complaints().at(0).find(path_), std::string::npos) << second.errors;
  // And the first is none the worse.
  EXPECT_TRUE(std::filesystem::exists(path_));
  EXPECT_TRUE(comex::connect(*first.shm, LinkOptions{}));
}

TEST_F(SocketOfNode, a_port_in_use_is_refused_without_touching_the_socket) {
  auto first = start_node({"--listen", "127.0.0.1:0", "--socket", path_}, folder_.path("."));
  const auto second = run_second("127.0.0.1:" + std::to_string(first.tcp->port));
  expect_refused(second);
  EXPECT_TRUE(comex::connect(*first.shm, LinkOptions{}));
}

TEST_F(SocketOfNode, what_is_no_socket_is_left_alone) {
  const auto file = folder_.file("node.sock", "precious");
  const auto outcome = run_second("none");
  expect_refused(outcome);
  EXPECT_EQ(std::filesystem::file_size(file), 8U);
}

// The first node is busy or stopped and its queue of newcomers is full: it is there all the same, and its socket must
// not be taken from it.
TEST_F(SocketOfNode, a_node_too_busy_to_answer_keeps_its_socket) {
  auto first = start_node({"--listen", "none", "--socket", path_}, folder_.path("."));
  const auto link = comex::connect(*first.shm, LinkOptions{});
  ASSERT_TRUE(link) << link.error().message;
  ASSERT_TRUE(first.process.stop());
  std::vector<Fd> waiting;
  for (auto fd = connect_unix(path_); fd; fd = connect_unix(path_)) {
    waiting.push_back(*std::move(fd));
    ASSERT_LT(waiting.size(), 10'000U) << "the queue does not fill";
  }
  Process second(
      {COMEX_BINARY, "serve", "--memory", "16M", "--no-lock", "--no-huge-pages", "--listen", "none", "--socket", path_},
      folder_.path("."));
  const auto ready = second.read_line();  // nothing, if it was refused
  EXPECT_FALSE(ready) << "it took the socket of a node that lives: " << *ready;
  second.kill();
  waiting.clear();
  first.process.go_on();
  EXPECT_TRUE((*link)->beat());
  EXPECT_TRUE(wait_until([&] { return comex::connect(*first.shm, LinkOptions{}).has_value(); }, Millis(8000)))
      << "the first node cannot be reached any more";
}

// A node that was replaced (its socket removed by hand, another started) must not take its successor's socket along
// when it ends.
TEST_F(SocketOfNode, an_old_node_leaves_its_successors_socket_alone) {
  auto first = start_node({"--listen", "none", "--socket", path_}, folder_.path("."));
  std::filesystem::remove(path_);
  auto second = start_node({"--listen", "none", "--socket", path_}, folder_.path("."));
  first.process.signal(SIGTERM);
  ASSERT_EQ(first.process.wait(), 0);
  EXPECT_TRUE(std::filesystem::exists(path_));
  EXPECT_TRUE(comex::connect(*second.shm, LinkOptions{}));
}

TEST_F(SocketOfNode, has_the_permissions_that_were_asked_for) {
  const auto mode_of = [&] {
    struct stat status {};
    EXPECT_EQ(::stat(path_.c_str(), &status), 0);
    return status.st_mode & 0777;
  };
  {
    auto node = start_node({"--listen", "none", "--socket", path_}, folder_.path("."));
    EXPECT_EQ(mode_of(), 0600U);
  }
  auto node = start_node({"--listen", "none", "--socket", path_, "--socket-mode", "0660"}, folder_.path("."));
  EXPECT_EQ(mode_of(), 0660U);
}

}  // namespace
}  // namespace comex::test
