// Lanes that the keeper serves itself: what it moves, and what it does with a process that asks for nonsense. The node
// behind it is a fake, for the relay does not care.
#include "run/keeper/lane_relay.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

#include "base/wait_ready.h"
#include "fabric/desk_lane.h"
#include "fabric/lane_set.h"
#include "pool/fake_link_test.h"
#include "pool/kept_member_test.h"
#include "run/keeper/keeper_lanes.h"
#include "run/packet.h"

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
    lane_.emplace(std::move(end->socket), *desk_, &dock_, lanes_.broken_word(), Nanos(50'000));
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
  Dock dock_;  // there is none, but in DockedLaneTest
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
  request.pages[0] = LaneDesk::kPages;
  ask(request);
  EXPECT_TRUE(ends());
}

TEST_F(LaneRelayTest, segments_that_leave_the_desk_end_it) {
  auto request = sensible();
  request.segments = 2;
  request.pages[1] = LaneDesk::kPages - 1;
  request.extents[1] = Extent{run_.first, UINT32_MAX};
  ask(request);
  EXPECT_TRUE(ends());
}

TEST_F(LaneRelayTest, more_requests_than_there_is_room_for_end_it) {
  desk_->asked.store(LaneDesk::kRequests + 1);
  (void)::send(keepers_.get(), "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
  EXPECT_TRUE(ends());
}

TEST_F(LaneRelayTest, pages_in_a_dock_that_nobody_has_sent_end_it) {
  auto request = sensible();
  request.pages[0] = LaneDesk::kOnDock;
  ask(request);
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

// A process with a dock.
class DockedLaneTest : public LaneRelayTest {
 protected:
  DockedLaneTest() {
    EXPECT_EQ(dock_.open(Dock::make_file(kDockBytes), kDockBytes), Errc::ok);
    send(dock_.file());
    void* const at = ::mmap(nullptr, kDockBytes, PROT_READ | PROT_WRITE, MAP_SHARED, dock_.file(), 0);
    keepers_dock_ = static_cast<std::byte*>(at);
    EXPECT_TRUE(eventually([&] { return desk_->docked.load() != 0; }));
  }
  ~DockedLaneTest() override { ::munmap(keepers_dock_, kDockBytes); }
  // As OutpostNode::use_lanes().
  void send(int file) const {
    char one = 0;
    const std::array part{iovec{&one, sizeof one}};
    EXPECT_EQ(send_packet(lane_->fd(), part, std::array{file}), Errc::ok);
  }
  std::byte* take(std::uint32_t pages, int fill) {
    std::byte* const memory = dock_.take(std::size_t{pages} << kPageShift);
    std::memset(memory, fill, std::size_t{pages} << kPageShift);
    return memory;
  }
  // What is behind a page of the dock for the keeper and its device.
  [[nodiscard]] std::byte* behind(const std::byte* page) const {
    const auto number = dock_.find(page, 1);
    return number ? keepers_dock_ + (std::size_t{*number} << kPageShift) : nullptr;
  }
  [[nodiscard]] bool desk_is_untouched() const {
    return std::all_of(desk_->pages.begin(), desk_->pages.end(), [](std::byte b) { return b == std::byte{0}; });
  }

  static constexpr std::size_t kDockBytes = std::size_t{600} << kPageShift;
  std::byte* keepers_dock_ = nullptr;
};

TEST_F(DockedLaneTest, pages_in_the_dock_are_not_copied) {
  std::byte* const out = take(200, 3);
  std::byte* const in = take(200, 4);
  const Segment there{run_.first + 5, 200, out};
  ASSERT_EQ(move(Direction::write, std::span(&there, 1)), Errc::ok);
  const Segment back{run_.first + 5, 200, in};
  ASSERT_EQ(move(Direction::read, std::span(&back, 1)), Errc::ok);
  EXPECT_EQ(std::memcmp(in, out, std::size_t{200} << kPageShift), 0);
  EXPECT_EQ(in[0], std::byte{3});
  EXPECT_TRUE(desk_is_untouched());
}

TEST_F(DockedLaneTest, others_come_by_way_of_the_desk_in_one_transfer_with_them) {
  std::byte* const docked = take(2, 0);
  Pages out(5, 9);
  ASSERT_EQ(move(Direction::write, 0, out), Errc::ok);
  Pages in(3);
  const std::array<Segment, 4> back{Segment{run_.first, 1, in.page(0)}, Segment{run_.first + 3, 1, docked},
                                    Segment{run_.first + 1, 2, in.page(1)},
                                    Segment{run_.first + 4, 1, docked + kPageSize}};
  ASSERT_EQ(move(Direction::read, back), Errc::ok);
  EXPECT_TRUE(in.are(9));
  EXPECT_EQ(docked[0], std::byte{12});
  EXPECT_EQ(docked[kPageSize], std::byte{13});
}

// The node is slow, the process gives up, and uses its memory for something else; then the pages come.
TEST_F(DockedLaneTest, what_comes_after_a_read_was_given_up_touches_nothing) {
  Pages out(2, 30);
  ASSERT_EQ(move(Direction::write, 0, out), Errc::ok);
  cluster_[0].hold_transfers(true);
  std::byte* const in = take(2, 1);
  std::byte* const late = behind(in);
  const Segment segment{run_.first, 2, in};
  Transfer transfer(Direction::read, std::span(&segment, 1));
  lanes_.submit(transfer, 0);
  ASSERT_TRUE(eventually([&] { return cluster_[0].pending() == 1; }));
  lanes_.sever(Errc::timeout);
  ASSERT_EQ(transfer.result(), Errc::timeout);
  std::memset(in, 2, 2 * kPageSize);
  cluster_[0].hold_transfers(false);
  ASSERT_TRUE(eventually([&] { return desk_->over.load() != 0; }));
  EXPECT_EQ(late[0], std::byte{30}) << "it came";
  EXPECT_EQ(in[0], std::byte{2});
  EXPECT_EQ(in[2 * kPageSize - 1], std::byte{2});
  EXPECT_EQ(dock_.find(in, 2), std::nullopt);
}

// What was to be written is what is written, late as it may be, and can be read by others all the while.
TEST_F(DockedLaneTest, a_write_that_was_given_up_takes_what_was_there_then) {
  cluster_[0].hold_transfers(true);
  std::byte* const out = take(3, 7);
  const Segment segment{run_.first, 3, out};
  Transfer transfer(Direction::write, std::span(&segment, 1));
  std::atomic<bool> reading{true};
  std::atomic<std::uint64_t> wrong{0};
  std::jthread reader([&] {
    while (reading.load()) wrong += static_cast<volatile std::byte*>(out)[kPageSize] != std::byte{7};
  });
  lanes_.submit(transfer, 0);
  ASSERT_TRUE(eventually([&] { return cluster_[0].pending() == 1; }));
  lanes_.sever(Errc::timeout);
  reading.store(false);
  reader.join();
  EXPECT_EQ(wrong.load(), 0U);
  std::memset(out, 8, 3 * kPageSize);
  cluster_[0].hold_transfers(false);
  ASSERT_TRUE(eventually([&] { return desk_->over.load() != 0; }));
  EXPECT_EQ(byte_of(0), std::byte{7});
  EXPECT_EQ(byte_of(2), std::byte{7});
}

// The keeper says when nothing is under way any more: then nothing has to be parted with.
TEST_F(DockedLaneTest, a_lane_that_is_over_leaves_the_dock_whole) {
  std::byte* const in = take(1, 1);
  const Segment segment{run_.first, 1, in};
  ASSERT_EQ(move(Direction::read, std::span(&segment, 1)), Errc::ok);
  cluster_[0].die();
  ASSERT_TRUE(eventually([&] { return desk_->over.load() != 0 || move(Direction::read, {&segment, 1}) != Errc::ok; }));
  ASSERT_TRUE(eventually([&] { return desk_->over.load() != 0; }));
  EXPECT_EQ(move(Direction::read, std::span(&segment, 1)), Errc::disconnected);
  EXPECT_NE(dock_.find(in, 1), std::nullopt);
}

TEST_F(DockedLaneTest, pages_beyond_the_dock_end_it) {
  auto request = sensible();
  request.pages[0] = LaneDesk::kOnDock | (kDockBytes >> kPageShift);
  ask(request);
  EXPECT_TRUE(ends());
}

// Its pages are copied by way of the desk, and the lane goes on.
TEST_F(LaneRelayTest, a_dock_that_could_shrink_is_none) {
  std::FILE* const on_disk = std::tmpfile();
  const Fd in_memory(::memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  for (const int file : {::fileno(on_disk), in_memory.get()}) {
    ASSERT_EQ(::ftruncate(file, kPageSize), 0);
    char one = 0;
    const std::array part{iovec{&one, sizeof one}};
    ASSERT_EQ(send_packet(lane_->fd(), part, std::array{file}), Errc::ok);
    Pages pages(1, 1);
    EXPECT_EQ(move(Direction::write, 0, pages), Errc::ok);
  }
  std::fclose(on_disk);
  EXPECT_EQ(desk_->docked.load(), 0U);
}

// Descriptors that come besides are not kept.
TEST_F(DockedLaneTest, more_files_than_one_are_closed) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  char one = 0;
  const std::array part{iovec{&one, sizeof one}};
  const Fd first(ends[0]);
  {
    const Fd second(ends[1]);
    ASSERT_EQ(send_packet(lane_->fd(), part, std::array{second.get(), second.get()}), Errc::ok);
  }
  Pages pages(1, 1);
  ASSERT_EQ(move(Direction::write, 0, pages), Errc::ok);
  EXPECT_TRUE(wait_ready(first.get(), POLLIN, Deadline(kPatience))) << "nobody has the other end of the pipe any more";
}

}  // namespace
}  // namespace comex
