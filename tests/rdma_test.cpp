// What a client's device may do at a node, and what it may not. Needs an RDMA device: see media() in support/node.h.
#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "fabric/channel.h"
#include "fabric/rdma_link.h"
#include "support/heartbeat.h"
#include "support/node.h"
#include "support/pages.h"
#include "support/wait.h"

namespace comex::test {
namespace {

// A lane that does as it is told, with whatever address and key.
class RawLane {
 public:
  explicit RawLane(std::unique_ptr<Stream> stream) : stream_(static_cast<RdmaStream*>(stream.release())) {
    auto page = RdmaPages::make(stream_->endpoint().domain(), kPageSize);
    if (!page) throw std::runtime_error(page.error().message);
    page_ = *std::move(page);
  }

  ibv_wc_status read(std::uint64_t address, std::uint32_t key) { return move(IBV_WR_RDMA_READ, address, key); }
  ibv_wc_status write(std::uint64_t address, std::uint32_t key, int value) {
    std::memset(page_.data(), value, kPageSize);
    return move(IBV_WR_RDMA_WRITE, address, key);
  }

 private:
  ibv_wc_status move(ibv_wr_opcode how, std::uint64_t address, std::uint32_t key) {
    ibv_sge place{reinterpret_cast<std::uintptr_t>(page_.data()), kPageSize, page_.key()};
    ibv_send_wr work{};
    work.wr_id = RdmaStream::kPages;
    work.sg_list = &place;
    work.num_sge = 1;
    work.opcode = how;
    work.send_flags = IBV_SEND_SIGNALED;
    work.wr.rdma.remote_addr = address;
    work.wr.rdma.rkey = key;
    ibv_send_wr* failed = nullptr;
    if (ibv_post_send(stream_->endpoint().qp(), &work, &failed) != 0) return IBV_WC_GENERAL_ERR;
    ibv_wc done{};
    const auto completed = [&] {
      return stream_->endpoint().poll({&done, 1}) > 0 && (done.wr_id & RdmaStream::kPages) != 0;
    };
    return wait_until(completed) ? done.status : IBV_WC_RESP_TIMEOUT_ERR;
  }

  std::unique_ptr<RdmaStream> stream_;
  RdmaPages page_;
};

class RdmaNode : public testing::Test {
 protected:
  void SetUp() override {
    if (std::getenv("COMEX_TEST_RDMA") == nullptr) GTEST_SKIP() << "there is no RDMA device";
    begin(TestNode::config());
  }

  void begin(const ServerConfig& config) {
    link_.reset();
    node_ = std::make_unique<TestNode>(Over::rdma, config);
    link_ = node_->connect(Over::rdma);
    frames_ = granted_extent(*link_, 512);
    key_ = key_of(*link_, frames_.first);
    Pages pages(4, 5);
    ASSERT_EQ(write(*link_, Extent{frames_.first, 4}, pages), Errc::ok);
  }

  static wire::SlabKey key_of(Link& link, FrameNo frame) {
    const auto body = link.call(wire::Type::map, wire::encode(wire::Map{{frame.value / 512}}));
    if (!body) throw std::runtime_error(body.error().message);
    return wire::decode<wire::MapReply>(*body).value().keys.at(0);
  }
  static std::shared_ptr<RdmaDomain> domain() { return std::make_shared<RdmaDomain>(**rdma_library()); }
  // A lane that has proved itself.
  [[nodiscard]] RawLane lane_of(const Link& link) const {
    auto opened = open_channel(node_->url(Over::rdma), node_->options(Over::rdma), wire::Purpose::lane, &link.session(),
                               domain());
    if (!opened) throw std::runtime_error(opened.error().message);
    return RawLane(opened->channel->release());
  }
  // One that only says whose it is.
  [[nodiscard]] std::unique_ptr<Stream> unproved(ClientId client) const {
    auto stream =
        open_rdma_stream(node_->url(Over::rdma), node_->options(Over::rdma), domain(), client, Deadline(kPatience));
    if (!stream) throw std::runtime_error(stream.error().message);
    return *std::move(stream);
  }
  void expect_untouched(Link& link) const {
    Pages pages(4);
    ASSERT_EQ(read(link, Extent{frames_.first, 4}, pages), Errc::ok);
    EXPECT_TRUE(pages.are(5));
  }

  std::unique_ptr<TestNode> node_;
  std::unique_ptr<Link> link_;
  Extent frames_;
  wire::SlabKey key_;
};

TEST_F(RdmaNode, a_lane_with_the_right_key_can) {
  auto lane = lane_of(*link_);
  EXPECT_EQ(lane.read(key_.address, key_.key), IBV_WC_SUCCESS);
  EXPECT_EQ(lane.write(key_.address + 8 * kPageSize, key_.key, 1), IBV_WC_SUCCESS);
}

TEST_F(RdmaNode, a_wrong_key_opens_nothing) {
  EXPECT_EQ(lane_of(*link_).write(key_.address, key_.key ^ 0x5500, 1), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(lane_of(*link_).read(key_.address, key_.key + 0x100), IBV_WC_REM_ACCESS_ERR);
  expect_untouched(*link_);
}

TEST_F(RdmaNode, a_key_ends_where_its_slab_does) {
  EXPECT_EQ(lane_of(*link_).write(key_.address + 512 * kPageSize, key_.key, 1), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(lane_of(*link_).write(key_.address + 512 * kPageSize - 8, key_.key, 1), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(lane_of(*link_).read(key_.address - kPageSize, key_.key), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(RdmaNode, anothers_key_opens_nothing) {
  const auto other = node_->connect(Over::rdma);
  EXPECT_EQ(lane_of(*other).write(key_.address, key_.key, 1), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(lane_of(*other).read(key_.address, key_.key), IBV_WC_REM_ACCESS_ERR);
  expect_untouched(*link_);
}

TEST_F(RdmaNode, a_connection_that_has_not_proved_itself_opens_nothing) {
  RawLane stranger(unproved(link_->session().client));
  EXPECT_NE(stranger.write(key_.address, key_.key, 1), IBV_WC_SUCCESS);
  expect_untouched(*link_);
}

// It says that it is to be a lane of the one client, and proves to be the other.
TEST_F(RdmaNode, a_lane_must_prove_to_be_whose_it_said_it_was) {
  const auto other = node_->connect(Over::rdma);
  const auto opened = shake_hands(unproved(link_->session().client), node_->url(Over::rdma), node_->options(Over::rdma),
                                  wire::Purpose::lane, &other->session(), Deadline(kPatience));
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Errc::denied);
}

TEST_F(RdmaNode, a_key_goes_with_the_last_frame) {
  auto lane = lane_of(*link_);
  ASSERT_EQ(lane.read(key_.address, key_.key), IBV_WC_SUCCESS);
  ASSERT_TRUE(link_->give_back({&frames_, 1}));
  EXPECT_EQ(lane.write(key_.address, key_.key, 1), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(RdmaNode, a_fenced_client_is_refused_by_the_device) {
  auto config = TestNode::config();
  config.lease = Millis(2000);
  begin(config);
  auto lane = lane_of(*link_);
  ASSERT_EQ(lane.read(key_.address, key_.key), IBV_WC_SUCCESS);
  ASSERT_TRUE(wait_until([&] { return node_->clients() == 0; })) << "nobody beats: the lease ends";
  const auto heir_of_the_memory = node_->connect(Over::rdma);
  const Heartbeat beating(*heir_of_the_memory);
  const auto theirs = granted(*heir_of_the_memory, node_->frames());
  EXPECT_NE(lane.write(key_.address, key_.key, 1), IBV_WC_SUCCESS);
  Pages pages(4);
  ASSERT_EQ(read(*heir_of_the_memory, Extent{frames_.first, 4}, pages), Errc::ok);
  for (std::uint32_t i = 0; i < 4; ++i) EXPECT_TRUE(page_is_zeros(pages.page(i)));
}

TEST_F(RdmaNode, lanes_of_an_earlier_coming_are_cut) {
  auto lane = lane_of(*link_);
  ASSERT_EQ(lane.read(key_.address, key_.key), IBV_WC_SUCCESS);
  const auto again = node_->resume(Over::rdma, link_->session());
  ASSERT_TRUE(again->reach({&frames_, 1}));
  EXPECT_NE(lane.write(key_.address, key_.key, 1), IBV_WC_SUCCESS);
  expect_untouched(*again);
}

TEST_F(RdmaNode, a_wrong_secret_is_refused_with_a_word) {
  auto options = node_->options(Over::rdma);
  options.secret = "not the secret of this node";
  const auto link = comex::connect(node_->url(Over::rdma), options);
  ASSERT_FALSE(link);
  EXPECT_EQ(link.error().code, Errc::denied);
  EXPECT_NE(link.error().message.find("wrong secret"), std::string::npos) << link.error().message;
}

TEST_F(RdmaNode, nobody_listens_there) {
  auto url = node_->url(Over::rdma);
  url.port = static_cast<std::uint16_t>(url.port + 1);
  const auto link = comex::connect(url, node_->options(Over::rdma));
  ASSERT_FALSE(link);
  EXPECT_EQ(link.error().code, Errc::disconnected);
  EXPECT_NE(link.error().message.find("comex serve --rdma"), std::string::npos) << link.error().message;
}

}  // namespace
}  // namespace comex::test
