// Pages go to the node and come back as they were, over every medium.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <numeric>
#include <random>
#include <thread>

#include "support/heartbeat.h"
#include "support/node.h"
#include "support/pages.h"
#include "support/wait.h"

namespace comex::test {
namespace {

class LinkTransfer : public testing::TestWithParam<Over> {
 protected:
  TestNode node_{GetParam()};
};

INSTANTIATE_TEST_SUITE_P(Over, LinkTransfer, testing::ValuesIn(media()), testing::PrintToStringParamName());

TEST_P(LinkTransfer, one_page) {
  const auto link = node_.connect(GetParam());
  const Extent frame = granted_extent(*link, 1);
  Pages out(1, 11);
  Pages in(1);
  EXPECT_EQ(write(*link, frame, out), Errc::ok);
  EXPECT_EQ(read(*link, frame, in), Errc::ok);
  EXPECT_TRUE(in.are(11));
}

TEST_P(LinkTransfer, the_largest_transfer_is_256_pages) {
  const auto link = node_.connect(GetParam());
  const Extent frames = granted_extent(*link, wire::kMaxTransferPages);
  Pages out(frames.count, 12);
  Pages in(frames.count);
  EXPECT_EQ(write(*link, frames, out), Errc::ok);
  EXPECT_EQ(read(*link, frames, in), Errc::ok);
  EXPECT_TRUE(in.are(12));
}

// 64 segments of 1 to 4 pages, in an order that is neither that of the frames nor that of the memory.
TEST_P(LinkTransfer, scattered_segments) {
  const auto link = node_.connect(GetParam());
  const Extent frames = granted_extent(*link, 512);
  std::mt19937 random(1);
  std::vector<std::uint32_t> places(wire::kMaxSegments);
  std::iota(places.begin(), places.end(), 0);
  Pages out(wire::kMaxSegments * 4, 13);
  Pages in(wire::kMaxSegments * 4);
  const auto scatter = [&](Pages& pages) {
    std::vector<Segment> segments;
    for (std::uint32_t i = 0; i < wire::kMaxSegments; ++i) {
      segments.push_back(Segment{frames.first + places[i] * 8, 1 + i % 4, pages.page(i * 4)});
    }
    return segments;
  };
  std::shuffle(places.begin(), places.end(), random);
  const auto sent = scatter(out);
  Transfer write_it(Direction::write, sent);
  ASSERT_EQ(link->move(write_it), Errc::ok);
  const auto wanted = scatter(in);
  Transfer read_it(Direction::read, wanted);
  ASSERT_EQ(link->move(read_it), Errc::ok);
  for (std::uint32_t i = 0; i < wire::kMaxSegments; ++i) {
    for (std::uint32_t page = i * 4; page < i * 4 + 4; ++page) {
      const bool moved = page < i * 4 + 1 + i % 4;
      EXPECT_TRUE(moved ? page_is(in.page(page), 13, page) : page_is_zeros(in.page(page))) << "page " << page;
    }
  }
}

// All submitted before any is waited for: completion by progress() alone.
TEST_P(LinkTransfer, many_in_flight) {
  constexpr std::uint32_t kTransfers = 500;
  const auto link = node_.connect(GetParam());
  const Extent frames = granted_extent(*link, 512);
  Pages out(512, 14);
  Pages in(512);
  for (const Direction direction : {Direction::write, Direction::read}) {
    std::deque<Segment> segments;
    std::deque<Transfer> transfers;
    for (std::uint32_t i = 0; i < kTransfers; ++i) {
      Pages& pages = direction == Direction::write ? out : in;
      segments.push_back(Segment{frames.first + i, 1, pages.page(i)});
      transfers.emplace_back(direction, std::span(&segments.back(), 1), i % 3 == 0 ? Priority::bulk : Priority::urgent);
      link->submit(transfers.back());
    }
    const auto all_done = [&] {
      link->progress();
      return std::all_of(transfers.begin(), transfers.end(), [](const Transfer& t) { return t.done(); });
    };
    ASSERT_TRUE(wait_until(all_done));
    for (const auto& transfer : transfers) EXPECT_EQ(transfer.result(), Errc::ok);
  }
  for (std::uint32_t i = 0; i < kTransfers; ++i) EXPECT_TRUE(page_is(in.page(i), 14, i)) << "page " << i;
}

// More than any socket buffer holds, so that both sides run into back-pressure while replies are due.
TEST_P(LinkTransfer, large_writes_and_reads_at_once_do_not_lock_up) {
  constexpr std::uint32_t kTransfers = 48;
  auto options = node_.options(GetParam());
  options.lanes = 1;
  const auto link = node_.connect(GetParam(), options);
  const auto halves = granted(*link, 512, 8);
  ASSERT_EQ(total_frames(halves), 512U);
  Pages out(256, 15);
  std::deque<Pages> in;
  std::deque<Segment> segments;
  std::deque<Transfer> transfers;
  const Extent first{halves[0].first, 256};
  ASSERT_EQ(write(*link, first, out), Errc::ok);
  for (std::uint32_t i = 0; i < kTransfers; ++i) {
    const bool reads = i % 2 == 0;
    segments.push_back(Segment{first.first, 256, reads ? in.emplace_back(256).data() : out.data()});
    transfers.emplace_back(reads ? Direction::read : Direction::write, std::span(&segments.back(), 1));
    link->submit(transfers.back());
  }
  for (auto& transfer : transfers) EXPECT_EQ(link->wait(transfer), Errc::ok);
  for (const auto& pages : in) EXPECT_TRUE(pages.are(15));
}

// One thread's work: random transfers within its own frames, each read compared with what was last written.
class RandomWorker {
 public:
  RandomWorker(Link& link, Extent frames, unsigned seed)
      : link_(link), frames_(frames), random_(seed), seeds_(frames.count, 0) {}

  // How many pages came back wrong; stops at the first transfer that fails.
  std::uint32_t run(int rounds) {
    std::uint32_t wrong = 0;
    for (int i = 0; i < rounds && failure == Errc::ok; ++i) wrong += step();
    return wrong;
  }

  Errc failure = Errc::ok;

 private:
  std::uint32_t step() {
    // Segments do not overlap: each has a stripe of its own.
    const std::uint32_t count = pick(1, 8);
    const std::uint32_t stripe = frames_.count / count;
    const bool writes = pick(0, 1) == 0;
    Pages pages(frames_.count);
    std::vector<Segment> segments;
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::uint32_t length = pick(1, std::min<std::uint32_t>(stripe, 16));
      const std::uint32_t first = i * stripe + pick(0, stripe - length);
      segments.push_back(Segment{frames_.first + first, length, pages.page(first)});
    }
    if (writes) {
      ++version_;
      for_each_page(segments, pages, [&](std::uint32_t frame, std::byte* page) {
        seeds_[frame] = version_;
        fill_page(page, version_, frame);
      });
    }
    Transfer transfer(writes ? Direction::write : Direction::read, segments,
                      pick(0, 1) == 0 ? Priority::urgent : Priority::bulk);
    failure = link_.move(transfer);
    std::uint32_t wrong = 0;
    if (writes || failure != Errc::ok) return 0;
    for_each_page(segments, pages, [&](std::uint32_t frame, const std::byte* page) {
      wrong += (seeds_[frame] == 0 ? page_is_zeros(page) : page_is(page, seeds_[frame], frame)) ? 0 : 1;
    });
    return wrong;
  }

  template <typename F>
  void for_each_page(const std::vector<Segment>& segments, Pages& pages, F&& f) {
    for (const auto& segment : segments) {
      for (std::uint32_t i = 0; i < segment.count; ++i) {
        const std::uint32_t frame = segment.first.value + i - frames_.first.value;
        f(frame, pages.page(frame));
      }
    }
  }

  std::uint32_t pick(std::uint32_t low, std::uint32_t high) {
    return std::uniform_int_distribution<std::uint32_t>(low, high)(random_);
  }

  Link& link_;
  Extent frames_;
  std::mt19937 random_;
  std::vector<std::uint64_t> seeds_;  // by frame: what it holds; 0: nothing yet
  std::uint64_t version_ = 0;
};

void eight_threads(Link& link) {
  constexpr unsigned kThreads = 8;
  std::vector<Extent> frames;
  for (unsigned i = 0; i < kThreads; ++i) frames.push_back(granted_extent(link, 128));
  std::atomic<std::uint32_t> wrong{0};
  std::atomic<unsigned> failed{0};
  // Under the thread sanitizer, on a busy machine, it takes longer than the lease.
  const Heartbeat beat(link, Millis(500));
  {
    std::vector<std::jthread> threads;
    for (unsigned i = 0; i < kThreads; ++i) {
      threads.emplace_back([&, i] {
        RandomWorker worker(link, frames[i], i);
        wrong += worker.run(150);
        if (worker.failure != Errc::ok) ++failed;
      });
    }
  }
  EXPECT_EQ(wrong, 0U);
  EXPECT_EQ(failed, 0U);
  EXPECT_EQ(link.broken(), Errc::ok);
}

TEST_P(LinkTransfer, eight_threads_at_once) {
  const auto link = node_.connect(GetParam());
  eight_threads(*link);
}

// All on one connection: leaders and followers change all the time.
TEST_P(LinkTransfer, eight_threads_on_one_lane) {
  auto options = node_.options(GetParam());
  options.lanes = 1;
  const auto link = node_.connect(GetParam(), options);
  eight_threads(*link);
}

// Nobody waits, everybody polls: between the last reply of one thread and the first request of the next, the lane is
// idle, and whoever polls then must not take the reply that comes for one that nobody asked for.
TEST_P(LinkTransfer, threads_that_poll_on_one_lane) {
  constexpr unsigned kThreads = 3;
  constexpr int kRounds = 300;
  auto options = node_.options(GetParam());
  options.lanes = 1;
  const auto link = node_.connect(GetParam(), options);
  std::vector<Extent> frames;
  for (unsigned i = 0; i < kThreads; ++i) frames.push_back(granted_extent(*link, 1));
  std::atomic<unsigned> failed{0};
  {
    std::vector<std::jthread> threads;
    for (unsigned i = 0; i < kThreads; ++i) {
      threads.emplace_back([&, i] {
        Pages page(1);
        const Segment segment{frames[i].first, 1, page.data()};
        for (int round = 0; round < kRounds && failed == 0; ++round) {
          Transfer transfer(Direction::read, {&segment, 1});
          link->submit(transfer);
          while (!transfer.done()) {
            link->progress();
            std::this_thread::yield();
          }
          if (transfer.result() != Errc::ok) ++failed;
        }
      });
    }
  }
  EXPECT_EQ(failed, 0U);
  EXPECT_EQ(link->broken(), Errc::ok) << to_string(link->broken());
}

// The same frame from two clients of one family: what the parent wrote, the heir reads, and the other way round.
TEST_P(LinkTransfer, two_links_to_the_same_frames) {
  const auto parent = node_.connect(GetParam());
  const Extent frames = granted_extent(*parent, 8);
  const auto heir_session = parent->share();
  ASSERT_TRUE(heir_session) << heir_session.error().message;
  const auto heir = node_.resume(GetParam(), *heir_session);
  ASSERT_TRUE(heir->reach({&frames, 1}));
  Pages pages(8, 16);
  ASSERT_EQ(write(*parent, frames, pages), Errc::ok);
  pages.clear();
  ASSERT_EQ(read(*heir, frames, pages), Errc::ok);
  EXPECT_TRUE(pages.are(16));
  pages.fill(17);
  ASSERT_EQ(write(*heir, frames, pages), Errc::ok);
  pages.clear();
  ASSERT_EQ(read(*parent, frames, pages), Errc::ok);
  EXPECT_TRUE(pages.are(17));
}

}  // namespace
}  // namespace comex::test
