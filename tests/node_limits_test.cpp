// What a node runs out of first is descriptors. It must neither burn a core over it, nor keep good clients out, nor
// lose any along the way.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "support/node.h"
#include "support/pages.h"
#include "support/process.h"
#include "support/raw_client.h"
#include "support/wait.h"

namespace comex::test {
namespace {

// A node that may open few files: 8 for its slabs, and a few dozen for everything else.
class FewDescriptors : public testing::Test {
 protected:
  static constexpr int kLimit = 100;

  FewDescriptors() {
    const std::string command = "ulimit -n " + std::to_string(kLimit) +
                                "; exec " COMEX_BINARY
                                " serve --memory 16M --no-lock --no-huge-pages --listen 127.0.0.1:0 --socket " +
                                folder_.path("node.sock");
    node_ = std::make_unique<Process>(std::vector<std::string>{"/bin/sh", "-c", command}, folder_.path("."));
    const auto ready = node_->read_line().value_or("");
    const auto begin = ready.find("tcp://");
    const auto url = parse_url(ready.substr(begin, ready.find(' ', begin) - begin));
    EXPECT_TRUE(url) << ready << node_->errors();
    tcp_ = *url;
    shm_ = *parse_url("unix://" + folder_.path("node.sock"));
  }
  // More connections that say nothing than the node can open.
  void crowd() {
    for (int i = 0; i < 2 * kLimit; ++i) crowd_.push_back(RawPeer::dial(tcp_));
  }
  // User and system time of the node, in clock ticks.
  [[nodiscard]] long cpu_ticks() const {
    std::ifstream file("/proc/" + std::to_string(node_->pid()) + "/stat");
    std::string stat;
    std::getline(file, stat);
    std::istringstream fields(stat.substr(stat.rfind(')') + 2));
    std::string field;
    for (int i = 3; i < 14; ++i) fields >> field;
    long user = 0;
    long system = 0;
    fields >> user >> system;
    return user + system;
  }

  TestFolder folder_;
  std::unique_ptr<Process> node_;
  Url tcp_;
  Url shm_;
  std::vector<RawPeer> crowd_;
};

TEST_F(FewDescriptors, a_crowd_that_says_nothing_keeps_nobody_out) {
  crowd();
  for (const Url& url : {shm_, tcp_}) {
    LinkOptions options;
    options.lanes = 1;
    const auto link = comex::connect(url, options);
    ASSERT_TRUE(link) << link.error().message;
    EXPECT_TRUE((*link)->grant(8, 3));
  }
}

TEST_F(FewDescriptors, a_crowd_does_not_cost_a_core) {
  crowd();
  const Deadline window(Millis(1000));
  const long before = cpu_ticks();
  ASSERT_TRUE(wait_until([&] { return window.passed(); }));
  const long spent = cpu_ticks() - before;
  EXPECT_LT(spent, sysconf(_SC_CLK_TCK) / 2) << "ticks in one second, of which there are " << sysconf(_SC_CLK_TCK);
}

// --- nothing is left behind ---

std::size_t open_files() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& file : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
  return count;
}

// Clients of every kind come and go, well and badly, in the same process as the node: both sides clean up.
TEST(NodeLimits, no_descriptor_is_left_behind) {
  TestNode node;
  const auto round = [&] {
    for (const Over over : {Over::shm, Over::tcp}) {
      const auto link = node.connect(over);
      const Extent frames = granted_extent(*link, 512);
      const auto heir = link->share();
      ASSERT_TRUE(heir);
      node.resume(over, *heir)->bye();
      EXPECT_TRUE(link->give_back({&frames, 1}));
      link->bye();
      RawSession cut(node, over);
      cut.grant(512, 9);
      (void)cut.control->call(wire::Type::map, wire::encode(wire::Map{{0, 1, 2}}));
      (void)cut.control->call(wire::Type::bye);
      auto wrong = RawPeer::dial(node.url(over));
      (void)shake(wrong, hello(wire::Purpose::resume, ClientId{1}), {});
    }
  };
  const std::size_t before = open_files();
  for (int i = 0; i < 30; ++i) round();
  // A few are opened once and kept (a library's random numbers, say); thirty rounds that leave one each are more.
  constexpr std::size_t kKept = 8;
  EXPECT_TRUE(wait_until([&] { return open_files() <= before + kKept; }))
      << open_files() << " open, " << before << " before";
}

}  // namespace
}  // namespace comex::test
