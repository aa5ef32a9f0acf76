// What a client's device may do at a node, and what it may not. Needs an RDMA device: see media() in support/node.h.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "fabric/channel.h"
#include "fabric/rdma_link.h"
#include "fabric/rdma_way.h"
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
  ibv_wc_status write(std::uint64_t address, std::uint32_t key, int value, Millis cap = kPatience) {
    std::memset(page_.data(), value, kPageSize);
    return move(IBV_WR_RDMA_WRITE, address, key, cap);
  }

 private:
  ibv_wc_status move(ibv_wr_opcode how, std::uint64_t address, std::uint32_t key, Millis cap = kPatience) {
    ibv_sge place{reinterpret_cast<std::uintptr_t>(page_.data()), kPageSize, page_.key()};
    ibv_send_wr work{};
    work.wr_id = RdmaStream::kPages;
    work.sg_list = &place;
    work.num_sge = 1;
    work.opcode = how;
    work.send_flags = IBV_SEND_SIGNALED;
    work.wr.rdma.remote_addr = address;
    work.wr.rdma.rkey = key;
    if (!stream_->endpoint().post(work)) return IBV_WC_GENERAL_ERR;
    ibv_wc done{};
    const auto completed = [&] {
      return stream_->endpoint().poll({&done, 1}) > 0 && (done.wr_id & RdmaStream::kPages) != 0;
    };
    return wait_until(completed, cap) ? done.status : IBV_WC_RESP_TIMEOUT_ERR;
  }

  std::unique_ptr<RdmaStream> stream_;
  RdmaPages page_;
};

class RdmaNode : public testing::Test {
 protected:
  // Soft-RoCE never gives up: whoever has heard nothing by then, of a connection that the node has cut, will not.
  static constexpr Millis kNoAnswer{5000};

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

// For programs that measure the device beside us.
TEST_F(RdmaNode, the_devices_on_the_way_to_it_are_known) {
  Url url = node_->url(Over::rdma);
  const auto to = rdma_way_to(url);
  ASSERT_TRUE(to) << to.error().message;
  EXPECT_TRUE(to->gid) << "Soft-RoCE is Ethernet";
  const auto at = rdma_way_at(url);
  ASSERT_TRUE(at) << at.error().message;
  ASSERT_TRUE(*at);
  EXPECT_EQ((*at)->device, to->device);
  EXPECT_EQ((*at)->gid, to->gid);
  url.host = "192.0.2.1";  // nobody's
  const auto elsewhere = rdma_way_at(url);
  ASSERT_TRUE(elsewhere) << elsewhere.error().message;
  EXPECT_FALSE(*elsewhere);
}

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
  EXPECT_NE(lane.write(key_.address, key_.key, 1, kNoAnswer), IBV_WC_SUCCESS);
  Pages pages(4);
  ASSERT_EQ(read(*heir_of_the_memory, Extent{frames_.first, 4}, pages), Errc::ok);
  for (std::uint32_t i = 0; i < 4; ++i) EXPECT_TRUE(page_is_zeros(pages.page(i)));
}

TEST_F(RdmaNode, lanes_of_an_earlier_coming_are_cut) {
  auto lane = lane_of(*link_);
  ASSERT_EQ(lane.read(key_.address, key_.key), IBV_WC_SUCCESS);
  const auto again = node_->resume(Over::rdma, link_->session());
  ASSERT_TRUE(again->reach({&frames_, 1}));
  EXPECT_NE(lane.write(key_.address, key_.key, 1, kNoAnswer), IBV_WC_SUCCESS);
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

// --- memory that the device knows ---

class RdmaMemoryTest : public RdmaNode {
 protected:
  void SetUp() override {
    RdmaNode::SetUp();
    if (IsSkipped()) return;
    ASSERT_TRUE(link_->enlist({memory_.data(), memory_.size()})) << "it cannot be registered";
  }
  void TearDown() override {
    if (link_) link_->delist({memory_.data(), memory_.size()});
  }
  Errc move(Direction direction, std::span<const Segment> segments) {
    Transfer transfer(direction, segments);
    return link_->move(transfer);
  }
  Pages memory_{64, 9};
};

TEST_F(RdmaMemoryTest, pages_go_straight_there_and_back) {
  const Extent there{frames_.first + 8, 64};
  ASSERT_EQ(write(*link_, there, memory_), Errc::ok);
  memory_.clear();
  ASSERT_EQ(read(*link_, there, memory_), Errc::ok);
  EXPECT_TRUE(memory_.are(9));
}

// One transfer of both kinds, and one whose memory begins in what is known and ends elsewhere.
TEST_F(RdmaMemoryTest, what_is_known_and_what_is_not_go_together) {
  Pages other(2, 30);
  const std::array<Segment, 3> out{Segment{frames_.first + 8, 2, memory_.page(4)},
                                   Segment{frames_.first + 20, 2, other.page(0)},
                                   Segment{frames_.first + 30, 1, memory_.page(0)}};
  ASSERT_EQ(move(Direction::write, out), Errc::ok);
  Pages back(5);
  const std::array<Segment, 3> in{Segment{frames_.first + 8, 2, back.page(0)},
                                  Segment{frames_.first + 20, 2, back.page(2)},
                                  Segment{frames_.first + 30, 1, back.page(4)}};
  ASSERT_EQ(move(Direction::read, in), Errc::ok);
  EXPECT_TRUE(page_is(back.page(0), 9, 4) && page_is(back.page(1), 9, 5));
  EXPECT_TRUE(page_is(back.page(2), 30, 0) && page_is(back.page(3), 30, 1));
  EXPECT_TRUE(page_is(back.page(4), 9, 0));

  link_->delist({memory_.data(), memory_.size()});
  ASSERT_TRUE(link_->enlist({memory_.data(), memory_.size() / 2}));
  ASSERT_EQ(write(*link_, Extent{frames_.first + 8, 64}, memory_), Errc::ok);
  memory_.clear();
  ASSERT_EQ(read(*link_, Extent{frames_.first + 8, 64}, memory_), Errc::ok);
  EXPECT_TRUE(memory_.are(9));
}

// Frames in a row and memory in many places, more than one request can name; in the middle is a gap, and then a place
// that the device does not know.
TEST_F(RdmaMemoryTest, scattered_memory_is_gathered_for_frames_in_a_row) {
  Pages other(1, 30);
  std::vector<Segment> segments;
  FrameNo next = frames_.first + 8;
  const auto add = [&](std::uint32_t count, std::byte* local) {
    segments.push_back(Segment{next, count, local});
    next = next + count;
  };
  for (std::uint32_t i = 0; i < 12; ++i) add(1 + i % 3, memory_.page(60 - 4 * i));
  next = next + 5;
  for (std::uint32_t i = 0; i < 3; ++i) add(1, memory_.page(2 * i));
  add(1, other.page(0));
  add(1, memory_.page(1));
  ASSERT_EQ(move(Direction::write, segments), Errc::ok);

  Pages back(next.value - frames_.first.value);
  ASSERT_EQ(read(*link_, Extent{frames_.first, back.count()}, back), Errc::ok);
  const auto expect_there = [&](const Segment& segment, const std::byte* there) {
    const std::size_t bytes = std::size_t{segment.count} << kPageShift;
    EXPECT_EQ(std::memcmp(there, segment.local, bytes), 0) << "frame " << segment.first.value;
  };
  for (const Segment& segment : segments) expect_there(segment, back.page(segment.first.value - frames_.first.value));

  memory_.clear();
  other.clear();
  ASSERT_EQ(move(Direction::read, segments), Errc::ok);
  for (const Segment& segment : segments) expect_there(segment, back.page(segment.first.value - frames_.first.value));
}

TEST_F(RdmaMemoryTest, what_was_forgotten_is_copied_again) {
  link_->delist({memory_.data(), memory_.size()});
  ASSERT_EQ(write(*link_, Extent{frames_.first + 8, 64}, memory_), Errc::ok);
  Pages back(64);
  ASSERT_EQ(read(*link_, Extent{frames_.first + 8, 64}, back), Errc::ok);
  EXPECT_TRUE(back.are(9));
}

// --- the cable ---

// Needs a cable that can be cut: COMEX_TEST_RDMA_CABLE is the network card at this end of it, which has a netem that
// loses nothing. Loss is changed in place: while one queueing discipline replaces another, packets cannot be sent,
// which is no cut cable, and Soft-RoCE of newer kernels never recovers from it (docs/rdma.md).
class RdmaCable : public RdmaNode {
 protected:
  static constexpr Millis kTimeout{2000};
  static constexpr Millis kSlack{2000};  // of an emulated machine

  void SetUp() override {
    const char* const cable = std::getenv("COMEX_TEST_RDMA_CABLE");
    if (cable == nullptr) GTEST_SKIP() << "there is no cable to cut";
    cable_ = cable;
    RdmaNode::SetUp();
    auto options = node_->options(Over::rdma);
    options.transfer_timeout = kTimeout;
    auto link = comex::connect(node_->url(Over::rdma), options);
    ASSERT_TRUE(link) << link.error().message;
    hasty_ = *std::move(link);
  }
  void cut() const { run("tc qdisc change dev " + cable_ + " root netem loss 100%"); }
  void mend() const { run("tc qdisc change dev " + cable_ + " root netem loss 0%"); }
  static void run(const std::string& command) { ASSERT_EQ(std::system(command.c_str()), 0) << command; }

  // Many are under way when it is cut: each ends in an error, none later than the time-out of the link.
  void cut_and_expect_all_to_end() {
    const Extent frames = granted_extent(*hasty_, 64);
    std::atomic<unsigned> reading{0};
    std::atomic<unsigned> in_time{0};
    std::vector<std::jthread> threads;
    for (int i = 0; i < 6; ++i) {
      threads.emplace_back([&] {
        Pages pages(16);
        Errc result = Errc::ok;
        Clock::duration took{};
        for (bool first = true; result == Errc::ok; first = false) {
          const auto start = Clock::now();
          result = read(*hasty_, Extent{frames.first, 16}, pages);
          took = Clock::now() - start;
          if (first) ++reading;
        }
        if (took < kTimeout + kSlack) ++in_time;
      });
    }
    ASSERT_TRUE(wait_until([&] { return reading == 6; }));
    cut();
    threads.clear();
    EXPECT_EQ(in_time, 6U);
    EXPECT_NE(hasty_->broken(), Errc::ok);
    Pages pages(1);
    const auto start = Clock::now();
    EXPECT_NE(read(*hasty_, Extent{frames.first, 1}, pages), Errc::ok);
    EXPECT_LT(Clock::now() - start, Millis(500)) << "a broken link says so at once";
  }

  std::string cable_;
  std::unique_ptr<Link> hasty_;
};

TEST_F(RdmaCable, a_peer_that_vanished_is_given_up_in_time) {
  cut_and_expect_all_to_end();
  mend();
}

// As a node that stands still for a while: a machine that is moved, or emulated, or very busy. The time-out of the link
// says how long that may be, not the device's retries.
TEST_F(RdmaCable, a_cable_that_is_mended_in_time_breaks_nothing) {
  auto options = node_->options(Over::rdma);
  options.transfer_timeout = Millis(20'000);
  auto patient = comex::connect(node_->url(Over::rdma), options);
  ASSERT_TRUE(patient) << patient.error().message;
  const Extent frames = granted_extent(**patient, 64);
  Pages pages(64, 3);
  ASSERT_EQ(write(**patient, frames, pages), Errc::ok);
  pages.clear();
  cut();
  Errc result = Errc::ok;
  std::jthread reader([&] { result = read(**patient, frames, pages); });
  std::this_thread::sleep_for(Millis(4000));
  mend();
  reader.join();
  EXPECT_EQ(result, Errc::ok);
  EXPECT_TRUE(pages.are(3));
}

TEST_F(RdmaCable, a_peer_that_vanished_is_found_again) {
  cut_and_expect_all_to_end();
  mend();
  std::unique_ptr<Link> again;
  std::string why;
  auto options = node_->options(Over::rdma);
  options.connect_timeout = kTimeout;
  const auto try_again = [&] {
    auto link = comex::connect(node_->url(Over::rdma), options);
    if (!link) return why = link.error().message, false;
    again = *std::move(link);
    return true;
  };
  ASSERT_TRUE(wait_until(try_again)) << why;
  const Extent frames = granted_extent(*again, 64);
  Pages pages(64, 3);
  ASSERT_EQ(write(*again, frames, pages), Errc::ok);
  pages.clear();
  ASSERT_EQ(read(*again, frames, pages), Errc::ok);
  EXPECT_TRUE(pages.are(3));
}

}  // namespace
}  // namespace comex::test
