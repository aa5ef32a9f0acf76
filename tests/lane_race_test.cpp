// Races between threads on one lane that are too rare to wait for: a stream of our own makes them happen every time.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <thread>

#include "fabric/tcp_lane.h"
#include "support/pages.h"

namespace comex::test {
namespace {

// Takes everything that is written, and answers reads with what `next_read` says.
class ScriptedStream final : public Stream {
 public:
  IoResult read(std::span<const iovec> into) noexcept override {
    wire::Bytes bytes = next_read ? next_read() : wire::Bytes{};
    std::size_t moved = 0;
    for (const auto& part : into) {
      const std::size_t share = std::min(part.iov_len, bytes.size() - moved);
      if (share > 0) std::memcpy(part.iov_base, bytes.data() + moved, share);
      moved += share;
    }
    EXPECT_EQ(moved, bytes.size()) << "the lane asked for less than came";
    return {moved, Errc::ok};
  }
  IoResult write(std::span<const iovec> from) noexcept override {
    std::size_t total = 0;
    for (const auto& part : from) total += part.iov_len;
    return {total, Errc::ok};
  }
  [[nodiscard]] int fd() const noexcept override { return -1; }
  void shut() noexcept override {}

  std::function<wire::Bytes()> next_read;
};

wire::Bytes reply_header(wire::Type type, std::uint32_t tag, Errc status, std::uint32_t payload) {
  wire::Header header;
  header.type = static_cast<std::uint16_t>(type) | wire::kReplyBit;
  header.status = static_cast<std::uint16_t>(status);
  header.tag = tag;
  header.payload = payload;
  wire::Writer w;
  w.put(wire::ByteView(std::as_bytes(std::span(&header, 1))));
  return w.take();
}

class LaneRace : public testing::Test {
 protected:
  LaneRace() {
    auto stream = std::make_unique<ScriptedStream>();
    stream_ = stream.get();
    lane_ = std::make_unique<TcpLane>(std::move(stream), broken_, Nanos(0));
    for (Transfer* transfer : {&first_, &second_}) transfer->deadline = Clock::now() + std::chrono::hours(1);
  }
  void submit(Transfer& transfer) {
    transfer.begin();
    EXPECT_EQ(lane_->submit(transfer), Errc::ok);
  }

  std::atomic<Errc> broken_{Errc::ok};
  ScriptedStream* stream_ = nullptr;
  std::unique_ptr<TcpLane> lane_;
  Pages pages_{2};
  Segment first_segment_{FrameNo{0}, 1, pages_.page(0)};
  Segment second_segment_{FrameNo{1}, 1, pages_.page(1)};
  Transfer first_{Direction::write, {&first_segment_, 1}};
  Transfer second_{Direction::write, {&second_segment_, 1}};
};

// Thread A has received its reply and looks once more: nothing is in flight. Before it reads, thread B submits, and
// the answer to B is what A reads.
TEST_F(LaneRace, a_transfer_submitted_between_looking_and_reading_is_no_surprise) {
  submit(first_);
  int reads = 0;
  stream_->next_read = [&]() -> wire::Bytes {
    switch (reads++) {
      case 0: return reply_header(wire::Type::write, 0, Errc::ok, 0);
      case 1: std::jthread([&] { submit(second_); }).join(); return reply_header(wire::Type::write, 1, Errc::ok, 0);
      default: return {};
    }
  };
  EXPECT_EQ(lane_->progress(), Errc::ok);
  EXPECT_TRUE(first_.done());
  EXPECT_TRUE(second_.done());
  lane_->fail_all(Errc::disconnected);  // nothing may stay behind when this test's transfers go
}

// Thread A is alone on the lane, so it reads header and pages in one go. Its read is refused, which is a header alone,
// and before it reads thread B submits: the answer to B is right behind.
TEST_F(LaneRace, the_reply_behind_a_refusal_belongs_to_the_next_transfer) {
  first_.direction = Direction::read;
  submit(first_);
  int reads = 0;
  stream_->next_read = [&]() -> wire::Bytes {
    if (reads++ > 0) return {};
    std::jthread([&] { submit(second_); }).join();
    auto bytes = reply_header(wire::Type::read, 0, Errc::denied, 0);
    const auto next = reply_header(wire::Type::write, 1, Errc::ok, 0);
    bytes.insert(bytes.end(), next.begin(), next.end());
    return bytes;
  };
  EXPECT_EQ(lane_->progress(), Errc::ok) << "a refused read broke the link for everybody";
  ASSERT_TRUE(first_.done());
  EXPECT_EQ(first_.result(), Errc::denied);
  EXPECT_TRUE(second_.done());
  lane_->fail_all(Errc::disconnected);
}

// A refusal that comes before the write is wholly sent: its memory is still being sent from, and must not be given
// back to the caller yet.
TEST_F(LaneRace, an_early_refusal_does_not_give_memory_back_that_is_still_being_sent) {
  class HalfStream final : public Stream {
   public:
    IoResult read(std::span<const iovec> into) noexcept override {
      if (answered_) return {};
      answered_ = true;
      const auto bytes = reply_header(wire::Type::write, 0, Errc::denied, 0);
      std::memcpy(into[0].iov_base, bytes.data(), bytes.size());
      return {bytes.size(), Errc::ok};
    }
    IoResult write(std::span<const iovec>) noexcept override {
      // The header and a part of the page; then the socket is full.
      return std::exchange(full_, true) ? IoResult{} : IoResult{100, Errc::ok};
    }
    [[nodiscard]] int fd() const noexcept override { return -1; }
    void shut() noexcept override {}

   private:
    bool answered_ = false;
    bool full_ = false;
  };
  TcpLane lane(std::make_unique<HalfStream>(), broken_, Nanos(0));
  first_.begin();
  ASSERT_EQ(lane.submit(first_), Errc::ok);
  const Errc result = lane.progress();
  EXPECT_TRUE(result != Errc::ok || !first_.done()) << "completed while the lane still sends from its memory";
  lane.fail_all(Errc::disconnected);
}

}  // namespace
}  // namespace comex::test
