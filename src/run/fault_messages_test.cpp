#include "run/fault_messages.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <future>
#include <optional>

#include "pager/evict/fifo.h"
#include "pager/fake_program_test.h"
#include "pager/prefetch/next.h"

namespace comex {
namespace {

using testing_support::FakeFrames;

thread_local sigjmp_buf back_to;
void on_segv(int) {
  siglongjmp(back_to, 1);
}

struct NoPins final : Pins {
  [[nodiscard]] std::uint64_t pinned(BlockNo) const noexcept override { return 0; }
};

// A pager on real memory, whose faults the test answers itself.
class FaultMessagesTest : public testing::Test {
 protected:
  static constexpr std::uint64_t kPages = 256;

  void SetUp() override {
    ASSERT_EQ(own_.reserve(), Errc::ok);
    const Errc opened = memory_.open(Delivery::message);
    if (opened == Errc::denied) GTEST_SKIP() << "no right to userfaultfd";
    ASSERT_EQ(opened, Errc::ok);
    budget_.set(kPages, 0);
    victims_.emplace(memory_, kPages);
    auto pager = Pager::create({.memory = memory_,
                                .frames = frames_,
                                .budget = share_,
                                .victims = *victims_,
                                .prefetcher = prefetcher_,
                                .pins = pins_},
                               {});
    ASSERT_TRUE(pager);
    pager_ = *std::move(pager);
    bounce_.resize((1 + Faulter::kMostAlong) * kPageSize);
    faulter_.bounce = bounce_.data();
    void* const area = mmap(nullptr, kPages * kPageSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(area, MAP_FAILED);
    first_ = PageNo::of(area);
    ASSERT_EQ(pager_->adopt(all()), Errc::ok);
    ASSERT_EQ(memory_.enlist(all()), Errc::ok);
  }
  void TearDown() override {
    if (first_.value != 0) munmap(first_.address(), kPages * kPageSize);
  }
  // A touch on a thread of its own.
  template <typename F>
  auto touch(F&& f) {
    return std::async(std::launch::async, std::forward<F>(f));
  }
  UffdMemory::Touch heard() {
    UffdMemory::Touch touch;
    while (memory_.next_touch(&touch) == Errc::busy) {
      pollfd waiting{memory_.fd(), POLLIN, 0};
      poll(&waiting, 1, 100);
    }
    return touch;
  }
  Served answer_next() { return answer(heard(), memory_, *pager_, faulter_); }
  template <typename T>
  static T value_of(std::future<T>& touched) {
    const bool done = touched.wait_for(std::chrono::seconds(20)) == std::future_status::ready;
    if (!done) std::abort();  // it waits for ever, and so would we
    return touched.get();
  }
  [[nodiscard]] PageRun all() const { return PageRun{first_, kPages}; }
  volatile char* at(std::uint64_t page) { return reinterpret_cast<volatile char*>((first_ + page).address()); }
  void write_and_evict(std::uint64_t page, char value) {
    ASSERT_EQ(pager_->fault(first_ + page, true, faulter_), Served::zeros);
    *at(page) = value;
    ASSERT_GT(pager_->evict(1), 0U);
    ASSERT_EQ(pager_->staging().drain(Deadline(std::chrono::seconds(10))), Errc::ok);
  }

  OwnMemory own_;
  UffdMemory memory_{own_};
  FakeFrames frames_{1, 1024};
  Budget budget_;
  Account account_;
  Share share_{budget_, account_};
  std::optional<Fifo> victims_;
  NextPages prefetcher_;
  NoPins pins_;
  std::unique_ptr<Pager> pager_;
  std::vector<std::byte> bounce_;
  Faulter faulter_;
  PageNo first_;
};

TEST_F(FaultMessagesTest, answer_firstTouch) {
  auto touched = touch([&] { return static_cast<int>(*at(3)); });
  EXPECT_EQ(answer_next(), Served::zeros);
  EXPECT_EQ(value_of(touched), 0);
}

TEST_F(FaultMessagesTest, answer_bringsBackWhatWasEvicted) {
  write_and_evict(5, 'x');
  auto touched = touch([&] { return static_cast<char>(*at(5)); });
  EXPECT_EQ(answer_next(), Served::remote);
  EXPECT_EQ(value_of(touched), 'x');
}

TEST_F(FaultMessagesTest, answer_writeToACleanPage) {
  write_and_evict(5, 'x');
  auto reads = touch([&] { return static_cast<char>(*at(5)); });
  EXPECT_EQ(answer_next(), Served::remote);
  EXPECT_EQ(value_of(reads), 'x');
  auto writes = touch([&] {
    *at(5) = 'y';
    return static_cast<char>(*at(5));
  });
  const UffdMemory::Touch heard_of = heard();
  EXPECT_TRUE(heard_of.write);
  EXPECT_EQ(answer(heard_of, memory_, *pager_, faulter_), Served::written);
  EXPECT_EQ(value_of(writes), 'y');
  EXPECT_EQ(frames_.used(), 0U) << "its frame is of no use any more";
}

TEST_F(FaultMessagesTest, answer_whenTheKernelTouches) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  ASSERT_EQ(write(ends[1], "hello", 5), 5);
  write_and_evict(7, 'x');
  auto got = touch([&] { return read(ends[0], (first_ + 7).address() + 10, 5); });
  EXPECT_EQ(answer_next(), Served::remote);
  EXPECT_EQ(value_of(got), 5);
  EXPECT_EQ(*at(7), 'x');
  EXPECT_EQ(at(7)[14], 'o');
  close(ends[0]), close(ends[1]);
}

TEST_F(FaultMessagesTest, answer_whenItIsThereByNow) {
  auto first = touch([&] { return static_cast<char>(*at(9)); });
  auto second = touch([&] { return static_cast<char>(*at(9)); });
  const UffdMemory::Touch one = heard();
  EXPECT_EQ(answer(one, memory_, *pager_, faulter_), Served::zeros);
  EXPECT_EQ(answer(one, memory_, *pager_, faulter_), Served::already) << "as if the other had been heard of, too";
  EXPECT_EQ(value_of(first), 0);
  EXPECT_EQ(value_of(second), 0);
}

// The kernel does not wake who waits for a page of a mapping that goes.
TEST_F(FaultMessagesTest, answer_whenThePageIsGone) {
  struct sigaction action {};
  struct sigaction before {};
  action.sa_handler = &on_segv;
  sigaction(SIGSEGV, &action, &before);
  auto touched = touch([&] {
    if (sigsetjmp(back_to, 1) != 0) return std::string("a fault, as natively");
    return std::string(1, *at(11));
  });
  const UffdMemory::Touch heard_of = heard();
  pager_->forget(PageRun{first_ + 11, 1});
  ASSERT_EQ(munmap((first_ + 11).address(), kPageSize), 0);
  EXPECT_EQ(answer(heard_of, memory_, *pager_, faulter_), Served::not_ours);
  EXPECT_EQ(value_of(touched), "a fault, as natively");
  sigaction(SIGSEGV, &before, nullptr);
}

TEST_F(FaultMessagesTest, answer_whatIsLostWakesNobody) {
  write_and_evict(13, 'x');
  auto touched = touch([&] { return static_cast<char>(*at(13)); });
  const UffdMemory::Touch heard_of = heard();
  frames_.fail_reads(Errc::fenced);
  EXPECT_EQ(answer(heard_of, memory_, *pager_, faulter_), Served::lost);
  EXPECT_EQ(touched.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout);
  frames_.fail_reads(Errc::ok);
  EXPECT_EQ(answer(heard_of, memory_, *pager_, faulter_), Served::remote);
  EXPECT_EQ(value_of(touched), 'x');
}

}  // namespace
}  // namespace comex
