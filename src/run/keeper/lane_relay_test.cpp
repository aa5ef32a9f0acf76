// Lanes that the keeper serves itself: what it moves, and what it does with a process that asks for nonsense. The node
// behind it is a fake, for the relay does not care.
#include "run/keeper/lane_relay.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <vector>

#include "base/wait_ready.h"
#include "fabric/desk_lane.h"
#include "fabric/lane_set.h"
#include "pool/fake_link_test.h"
#include "pool/kept_member_test.h"
#include "run/keeper/keeper_lanes.h"

namespace comex {
namespace {

using testing_support::eventually;
using testing_support::FakeCluster;

constexpr Millis kPatience{60'000};

// Page i of these is filled with seed + i.
class Pages {
 public:
  explicit Pages(std::uint32_t count, unsigned seed = 0) : bytes_(std::size_t{count} << kPageShift) {
    for (std::uint32_t i = 0; i < count; ++i) std::memset(page(i), static_cast<int>((seed + i) % 251), kPageSize);
  }
  [[nodiscard]] std::byte* page(std::uint32_t i) { return bytes_.data() + (std::size_t{i} << kPageShift); }
  [[nodiscard]] std::uint32_t count() const { return static_cast<std::uint32_t>(bytes_.size() >> kPageShift); }
  [[nodiscard]] bool are(unsigned seed) const { return bytes_ == Pages(count(), seed).bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

class LaneRelayTest : public ::testing::Test {
 protected:
  LaneRelayTest() {
    cluster_[0].extents_of(kFrames);
    PoolConfig config;
    config.nodes = cluster_.urls();
    config.member = testing_support::quick_config();
    auto pool = Pool::open(std::move(config), cluster_.connector());
    if (!pool) throw std::runtime_error(pool.error().message);
    pool_ = *std::move(pool);
    if (pool_->wait_for_frames(64, Deadline(kPatience)) != Errc::ok) throw std::runtime_error("no frames");
    run_ = pool_->take(kFrames).value();
    if (run_.count != kFrames) throw std::runtime_error("not in one piece");
    relay_ = std::make_unique<LaneRelay>(*pool_);
    link_ = pool_->enter(run_.node)->number();
    auto end = relay_->open(run_.node, link_);
    if (!end) throw std::runtime_error(end.error().message);
    keepers_ = end->socket.duplicate();
    desk_ = DeskLane::map(end->memory.get());
    lane_.emplace(std::move(end->socket), *desk_, lanes_.broken_word(), Nanos(50'000));
    lanes_.add(*lane_);
  }
  ~LaneRelayTest() override {
    cluster_[0].hold_transfers(false);
    lanes_.sever(Errc::disconnected);
    relay_.reset();
  }
  Errc move(Direction direction, std::span<const Segment> segments) {
    Transfer transfer(direction, segments);
    lanes_.submit(transfer, 0);
    return lanes_.wait(transfer);
  }
  Errc move(Direction direction, std::uint32_t first, Pages& pages) {
    const Segment segment{run_.first + first, pages.count(), pages.page(0)};
    return move(direction, std::span(&segment, 1));
  }
  // As a process would that has lost its mind.
  void ask(const LaneDesk::Request& request) {
    desk_->requests[0] = request;
    desk_->asked.store(1);
    (void)::send(keepers_.get(), "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
  }
  [[nodiscard]] bool ends() const {
    return eventually([&] { return desk_->over.load() != 0; }) && desk_->answered.load() == 0;
  }
  [[nodiscard]] LaneDesk::Request sensible() const {
    LaneDesk::Request request{};
    request.segments = 1;
    request.extents[0] = Extent{run_.first, 1};
    return request;
  }
  [[nodiscard]] std::byte byte_of(std::uint32_t frame) { return cluster_[0].frame(run_.first + frame)[100]; }

  static constexpr std::uint32_t kFrames = 300;
  FakeCluster cluster_{1};
  std::unique_ptr<Pool> pool_;
  std::unique_ptr<LaneRelay> relay_;
  comex::Run run_;
  std::uint64_t link_ = 0;
  LaneSet lanes_{kPatience};
  std::optional<DeskLane> lane_;
  LaneDesk* desk_ = nullptr;
  Fd keepers_;  // as the keeper has it, to end the lane
};

TEST_F(LaneRelayTest, pages_written_are_read_back) {
  for (const std::uint32_t count : {1U, 64U, 256U, 256U, 255U, 1U}) {
    Pages out(count, count);
    ASSERT_EQ(move(Direction::write, 3, out), Errc::ok);
    Pages in(count);
    ASSERT_EQ(move(Direction::read, 3, in), Errc::ok);
    EXPECT_TRUE(in.are(count)) << count;
  }
}

TEST_F(LaneRelayTest, segments_go_where_they_belong) {
  Pages out(3, 7);
  const std::array<Segment, 3> there{Segment{run_.first + 20, 1, out.page(0)}, Segment{run_.first + 4, 1, out.page(1)},
                                     Segment{run_.first + 9, 1, out.page(2)}};
  ASSERT_EQ(move(Direction::write, there), Errc::ok);
  Pages in(3);
  const std::array<Segment, 3> back{Segment{run_.first + 9, 1, in.page(2)}, Segment{run_.first + 20, 1, in.page(0)},
                                    Segment{run_.first + 4, 1, in.page(1)}};
  ASSERT_EQ(move(Direction::read, back), Errc::ok);
  EXPECT_TRUE(in.are(7));
}

// More than the desk has room for, of requests and of pages.
TEST_F(LaneRelayTest, what_does_not_fit_waits_its_turn) {
  constexpr std::size_t kTransfers = 3 * LaneDesk::kRequests;
  Pages out(250, 11);
  ASSERT_EQ(move(Direction::write, 0, out), Errc::ok);
  std::vector<Pages> in;
  std::array<Segment, kTransfers> segments;
  std::array<Transfer, kTransfers> transfers;
  in.reserve(kTransfers);
  for (std::size_t i = 0; i < kTransfers; ++i) {
    in.emplace_back(i % 10 == 5 ? 250 : 3);
    segments[i] = Segment{run_.first, in[i].count(), in[i].page(0)};
    transfers[i].segments = std::span(&segments[i], 1);
  }
  for (auto& transfer : transfers) lanes_.submit(transfer, 0);
  for (auto& transfer : transfers) EXPECT_EQ(lanes_.wait(transfer), Errc::ok);
  for (const Pages& pages : in) EXPECT_TRUE(pages.are(11));
}

TEST_F(LaneRelayTest, frames_of_nobody_are_refused_and_the_lane_goes_on) {
  Pages pages(1, 1);
  const Segment segment{FrameNo{1U << 30}, 1, pages.page(0)};
  EXPECT_EQ(move(Direction::write, std::span(&segment, 1)), Errc::denied);
  EXPECT_EQ(move(Direction::write, 0, pages), Errc::ok);
}

TEST_F(LaneRelayTest, nonsense_ends_the_lane) {
  auto request = sensible();
  request.direction = static_cast<Direction>(2);
  ask(request);
  EXPECT_TRUE(ends());
}

TEST_F(LaneRelayTest, more_segments_than_there_can_be_end_it) {
  auto request = sensible();
  request.segments = wire::kMaxSegments + 1;
  ask(request);
  EXPECT_TRUE(ends());
}

TEST_F(LaneRelayTest, pages_beyond_the_desk_end_it) {
  auto request = sensible();
  request.first_page = LaneDesk::kPages;
  ask(request);
  EXPECT_TRUE(ends());
}

TEST_F(LaneRelayTest, segments_that_leave_the_desk_end_it) {
  auto request = sensible();
  request.segments = 2;
  request.first_page = LaneDesk::kPages - 1;
  request.extents[1] = Extent{run_.first, UINT32_MAX};
  ask(request);
  EXPECT_TRUE(ends());
}

TEST_F(LaneRelayTest, more_requests_than_there_is_room_for_end_it) {
  desk_->asked.store(LaneDesk::kRequests + 1);
  (void)::send(keepers_.get(), "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
  EXPECT_TRUE(ends());
}

// What a dead process has asked for is moved before the keeper takes its lane for ended.
TEST_F(LaneRelayTest, what_was_asked_for_is_moved_before_the_end) {
  cluster_[0].hold_transfers(true);
  auto request = sensible();
  request.direction = Direction::write;
  std::memset(desk_->pages.data(), 42, kPageSize);
  desk_->requests[0] = request;
  desk_->asked.store(1);  // and nobody is woken
  LaneEnd end = begin_lane_end(keepers_.get());
  ASSERT_TRUE(eventually([&] { return cluster_[0].pending() == 1; }));
  ASSERT_EQ(see_lane_end(keepers_.get()), LaneEnd::waiting);
  cluster_[0].hold_transfers(false);
  while (end == LaneEnd::waiting && wait_ready(keepers_.get(), POLLIN, Deadline(kPatience))) {
    end = see_lane_end(keepers_.get());
  }
  EXPECT_EQ(end, LaneEnd::clean);
  EXPECT_EQ(byte_of(0), std::byte{42});
}

TEST_F(LaneRelayTest, a_lane_of_a_link_that_was_replaced_moves_nothing) {
  Pages pages(1, 1);
  ASSERT_EQ(move(Direction::write, 0, pages), Errc::ok);
  pool_->renew_link(run_.node, link_);
  ASSERT_TRUE(eventually([&] {
    const auto now = pool_->enter(run_.node);
    return now && now->number() != link_;
  }));
  Pages other(1, 2);
  EXPECT_EQ(move(Direction::write, 0, other), Errc::disconnected);
  EXPECT_EQ(byte_of(0), std::byte{1});
}

// The link breaks under a transfer: what became of it is not known, so there is no answer.
TEST_F(LaneRelayTest, a_link_that_breaks_ends_the_lane) {
  cluster_[0].hold_transfers(true);
  Pages pages(1, 1);
  const Segment segment{run_.first, 1, pages.page(0)};
  Transfer transfer(Direction::write, std::span(&segment, 1));
  lanes_.submit(transfer, 0);
  ASSERT_TRUE(eventually([&] { return cluster_[0].pending() == 1; }));
  cluster_[0].die();
  EXPECT_EQ(lanes_.wait(transfer), Errc::disconnected);
  EXPECT_EQ(desk_->answered.load(), 0U);
}

TEST_F(LaneRelayTest, a_relay_that_goes_ends_its_lanes) {
  relay_.reset();
  EXPECT_EQ(see_lane_end(keepers_.get()), LaneEnd::clean);
  Pages pages(1, 1);
  EXPECT_EQ(move(Direction::write, 0, pages), Errc::disconnected);
}

}  // namespace
}  // namespace comex
