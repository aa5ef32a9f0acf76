// A desk lane against a test that sits at the other end of the desk.
#include "fabric/desk_lane.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <array>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include "fabric/lane_set.h"

namespace comex {
namespace {

constexpr Millis kDeskTimeout{20'000};

class DeskLaneTest : public ::testing::Test {
 protected:
  DeskLaneTest() {
    const Fd memory(::memfd_create("desk", MFD_CLOEXEC));
    std::array<int, 2> ends{};
    if (::ftruncate(memory.get(), sizeof(LaneDesk)) != 0 ||
        ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
      throw std::runtime_error("no desk");
    }
    theirs_ = Fd(ends[1]);
    desk_ = DeskLane::map(memory.get());
    far_ = DeskLane::map(memory.get());
    lane_ = std::make_unique<DeskLane>(Fd(ends[0]), *desk_, &dock_, set_.broken_word(), Nanos(0));
    set_.add(*lane_);
  }
  ~DeskLaneTest() override {
    set_.sever(Errc::disconnected);
    ::munmap(far_, sizeof(LaneDesk));
  }
  Transfer& ask(Direction direction = Direction::read) {
    transfer_.direction = direction;
    transfer_.segments = std::span(&segment_, 1);
    set_.submit(transfer_, 0);
    return transfer_;
  }
  // Of the first request, on the desk.
  [[nodiscard]] std::byte* far_page() const {
    return far_->pages.data() + (std::size_t{far_->requests[0].pages[0]} << kPageShift);
  }
  void answer(Errc result) const {
    const std::uint32_t number = far_->answered.load();
    far_->results[number % LaneDesk::kRequests] = static_cast<std::uint16_t>(result);
    far_->answered.store(number + 1);
    if (far_->asker_sleeps.exchange(0) != 0) (void)::send(theirs_.get(), "", 1, MSG_NOSIGNAL);
  }

  LaneSet set_{kDeskTimeout};
  Dock dock_;
  LaneDesk* desk_ = nullptr;
  LaneDesk* far_ = nullptr;
  Fd theirs_;
  std::unique_ptr<DeskLane> lane_;
  std::vector<std::byte> page_ = std::vector<std::byte>(kPageSize);
  Segment segment_{FrameNo{7}, 1, page_.data()};
  Transfer transfer_;
};

TEST_F(DeskLaneTest, read_bringsThePageWhenItIsAnswered) {
  Transfer& transfer = ask();
  EXPECT_EQ(far_->asked.load(), 1U);
  EXPECT_EQ(far_->requests[0].extents[0].first, FrameNo{7});
  std::memset(far_page(), 3, kPageSize);
  set_.progress();
  EXPECT_FALSE(transfer.done());
  answer(Errc::ok);
  EXPECT_EQ(set_.wait(transfer), Errc::ok);
  EXPECT_EQ(page_[kPageSize - 1], std::byte{3});
}

TEST_F(DeskLaneTest, write_isOnTheDeskBeforeItIsAskedFor) {
  std::memset(page_.data(), 9, kPageSize);
  Transfer& transfer = ask(Direction::write);
  std::memset(page_.data(), 0, kPageSize);
  EXPECT_EQ(*far_page(), std::byte{9});
  answer(Errc::denied);
  EXPECT_EQ(set_.wait(transfer), Errc::denied);
  EXPECT_EQ(set_.broken(), Errc::ok) << "a refusal is an answer";
}

TEST_F(DeskLaneTest, wait_isWokenByTheAnswer) {
  Transfer& transfer = ask();
  std::jthread other([&] {
    while (far_->asker_sleeps.load() == 0) std::this_thread::yield();
    answer(Errc::ok);
  });
  EXPECT_EQ(set_.wait(transfer), Errc::ok);
}

TEST_F(DeskLaneTest, submit_wakesWhoSleeps) {
  far_->answerer_sleeps.store(1);
  ask();
  char byte = 1;
  EXPECT_EQ(::recv(theirs_.get(), &byte, 1, MSG_DONTWAIT), 1);
  EXPECT_EQ(far_->answerer_sleeps.load(), 0U);
  set_.sever(Errc::disconnected);
}

TEST_F(DeskLaneTest, wait_endsWhenTheOtherEndIsGone) {
  Transfer& transfer = ask();
  theirs_.reset();
  EXPECT_EQ(set_.wait(transfer), Errc::disconnected);
}

TEST_F(DeskLaneTest, progress_endsWhenTheOtherEndSaysSo) {
  Transfer& transfer = ask();
  far_->over.store(1);
  set_.progress();
  ASSERT_TRUE(transfer.done());
  EXPECT_EQ(transfer.result(), Errc::disconnected);
}

TEST_F(DeskLaneTest, lastAnswerCountsAlthoughTheLaneIsOver) {
  Transfer& transfer = ask();
  answer(Errc::ok);
  far_->over.store(1);
  theirs_.reset();
  EXPECT_EQ(set_.wait(transfer), Errc::ok);
}

TEST_F(DeskLaneTest, answersToWhatNobodyAskedBreakIt) {
  Transfer& transfer = ask();
  far_->answered.store(2);
  EXPECT_EQ(set_.wait(transfer), Errc::version);
}

// What is written to the desk after a transfer was given up is nobody's.
TEST_F(DeskLaneTest, lateAnswerTouchesNothing) {
  Transfer& transfer = ask();
  set_.sever(Errc::timeout);
  EXPECT_EQ(set_.wait(transfer), Errc::timeout);
  std::memset(far_->pages.data(), 5, kPageSize);
  answer(Errc::ok);
  set_.progress();
  EXPECT_EQ(page_[0], std::byte{0});
}

}  // namespace
}  // namespace comex
