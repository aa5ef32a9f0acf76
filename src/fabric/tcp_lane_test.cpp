// A lane against a node made of a thread and a socket pair, which can also misbehave.
#include "fabric/tcp_lane.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cstring>
#include <functional>
#include <random>
#include <thread>
#include <vector>

namespace comex {
namespace {

using wire::Header;

bool transfer_all(int fd, void* data, std::size_t size, bool writing) {
  auto* at = static_cast<char*>(data);
  while (size > 0) {
    const ssize_t n = writing ? send(fd, at, size, MSG_NOSIGNAL) : recv(fd, at, size, 0);
    if (n <= 0) return false;
    at += n;
    size -= static_cast<std::size_t>(n);
  }
  return true;
}

// Serves reads and writes of its own frames until the connection ends. `reply` may change the reply's header.
class ScriptedNode {
 public:
  explicit ScriptedNode(std::function<void(Header&)> reply = [](Header&) {}) : reply_(std::move(reply)) {
    int fds[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    lane_end_ = Fd(fds[0]);
    own_end_ = Fd(fds[1]);
    thread_ = std::thread([this] { serve(); });
  }
  ~ScriptedNode() {
    ::shutdown(own_end_.get(), SHUT_RDWR);
    thread_.join();
  }
  std::unique_ptr<Stream> connect() { return std::make_unique<SocketStream>(std::move(lane_end_)); }
  void hang_up() { ::shutdown(own_end_.get(), SHUT_RDWR); }

 private:
  void serve() {
    Header header;
    while (transfer_all(own_end_.get(), &header, sizeof header, false)) {
      std::vector<Extent> extents(header.body / sizeof(Extent));
      if (!transfer_all(own_end_.get(), extents.data(), header.body, false)) return;
      Header answer;
      answer.type = header.type | wire::kReplyBit;
      answer.tag = header.tag;
      const bool reads = header.type == static_cast<std::uint16_t>(wire::Type::read);
      for (const auto& e : extents) answer.payload += reads ? static_cast<std::uint32_t>(e.bytes()) : 0;
      for (const auto& e : extents) {
        if (!reads && !transfer_all(own_end_.get(), &memory_[e.first.value * kPageSize], e.bytes(), false)) return;
      }
      reply_(answer);
      if (!transfer_all(own_end_.get(), &answer, sizeof answer, true)) return;
      for (const auto& e : extents) {
        if (!reads || answer.payload == 0) continue;
        if (!transfer_all(own_end_.get(), &memory_[e.first.value * kPageSize], e.bytes(), true)) return;
      }
    }
  }

  std::function<void(Header&)> reply_;
  std::vector<char> memory_ = std::vector<char>(4096 * kPageSize);
  Fd lane_end_, own_end_;
  std::thread thread_;
};

class TcpLaneTest : public testing::Test {
 protected:
  void open(ScriptedNode& node) { lane_ = std::make_unique<TcpLane>(node.connect(), broken_, Nanos(20'000)); }
  void TearDown() override {
    if (lane_) sever(Errc::disconnected);
  }
  void sever(Errc why) {
    Errc none = Errc::ok;
    broken_.compare_exchange_strong(none, why);
    lane_->shut();
    lane_->fail_all(broken_.load());
  }
  void submit(Transfer& transfer, Millis timeout = Millis(5000)) {
    transfer.begin();
    transfer.deadline = Clock::now() + timeout;
    if (const Errc error = lane_->submit(transfer); error != Errc::ok) sever(error);
  }
  Errc wait(Transfer& transfer) {
    while (!transfer.done()) {
      Errc error = lane_->wait_a_while(transfer);
      if (error == Errc::ok && !transfer.done() && Clock::now() >= transfer.deadline) error = Errc::timeout;
      if (error != Errc::ok) sever(error);
    }
    return transfer.result();
  }

  std::atomic<Errc> broken_{Errc::ok};
  std::unique_ptr<TcpLane> lane_;
  std::vector<std::byte> page_ = std::vector<std::byte>(kPageSize);
};

TEST_F(TcpLaneTest, refusal_is_a_result_and_the_lane_goes_on) {
  bool refuse = true;
  ScriptedNode node([&](Header& reply) {
    if (!refuse) return;
    reply.status = static_cast<std::uint16_t>(Errc::denied);
    reply.payload = 0;
    refuse = false;
  });
  open(node);
  const Segment segment{FrameNo{0}, 1, page_.data()};
  Transfer first(Direction::read, {&segment, 1});
  submit(first);
  EXPECT_EQ(wait(first), Errc::denied);
  Transfer second(Direction::read, {&segment, 1});
  submit(second);
  EXPECT_EQ(wait(second), Errc::ok);
}

TEST_F(TcpLaneTest, replies_that_fit_nothing_break_the_link) {
  const std::vector<std::function<void(Header&)>> wrongs = {
      [](Header& h) { h.tag += 1; }, [](Header& h) { h.type = 3 | wire::kReplyBit; }, [](Header& h) { h.body = 8; },
      [](Header& h) { h.payload -= static_cast<std::uint32_t>(kPageSize); },
      [](Header& h) { h.status = static_cast<std::uint16_t>(Errc::denied); }};
  for (const auto& wrong : wrongs) {
    ScriptedNode node(wrong);
    broken_.store(Errc::ok);
    open(node);
    const Segment segment{FrameNo{0}, 1, page_.data()};
    Transfer transfer(Direction::read, {&segment, 1});
    submit(transfer);
    EXPECT_EQ(wait(transfer), Errc::version);
    sever(Errc::disconnected);
  }
}

// A node that acknowledges a write before it has read it could make the caller reuse memory that is still being sent.
TEST_F(TcpLaneTest, early_acknowledgement_of_a_write_breaks_the_link) {
  int fds[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
  const Fd far(fds[1]);
  lane_ = std::make_unique<TcpLane>(std::make_unique<SocketStream>(Fd(fds[0])), broken_, Nanos(0));
  std::vector<std::byte> pages(256 * kPageSize);  // more than the socket takes at once
  const Segment segment{FrameNo{0}, 256, pages.data()};
  Transfer transfer(Direction::write, {&segment, 1});
  submit(transfer);
  ASSERT_FALSE(transfer.done());
  Header reply;
  reply.type = static_cast<std::uint16_t>(wire::Type::write) | wire::kReplyBit;
  ASSERT_EQ(send(far.get(), &reply, sizeof reply, 0), static_cast<ssize_t>(sizeof reply));
  EXPECT_EQ(wait(transfer), Errc::version);
}

TEST_F(TcpLaneTest, silence_is_a_timeout_and_a_hang_up_an_error_for_all_outstanding) {
  int fds[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
  Fd far(fds[1]);
  lane_ = std::make_unique<TcpLane>(std::make_unique<SocketStream>(Fd(fds[0])), broken_, Nanos(0));
  const Segment segment{FrameNo{0}, 1, page_.data()};
  Transfer slow(Direction::read, {&segment, 1});
  Transfer other(Direction::read, {&segment, 1});
  submit(slow, Millis(50));
  submit(other);
  EXPECT_EQ(wait(slow), Errc::timeout);
  EXPECT_TRUE(other.done()) << "a broken link leaves nothing behind";
  Transfer late(Direction::read, {&segment, 1});
  submit(late);
  EXPECT_TRUE(late.done());
  EXPECT_EQ(late.result(), Errc::timeout);
}

TEST_F(TcpLaneTest, many_threads_on_one_lane_each_get_their_own_pages) {
  ScriptedNode node;
  open(node);
  constexpr unsigned kThreads = 6;
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      std::vector<std::byte> out(64 * kPageSize), in(64 * kPageSize);
      for (int i = 0; i < 200; ++i) {
        const std::uint32_t count = 1 + static_cast<std::uint32_t>(random() % 64);
        std::memset(out.data(), static_cast<int>(random() % 256), count * kPageSize);
        const std::array segments{Segment{FrameNo{t * 64}, count, out.data()}};
        const std::array back{Segment{FrameNo{t * 64}, count, in.data()}};
        Transfer write(Direction::write, segments);
        Transfer read(Direction::read, back);
        submit(write);
        submit(read);  // on the same lane, so it sees the write
        if (wait(read) != Errc::ok || wait(write) != Errc::ok) ++wrong;
        if (std::memcmp(out.data(), in.data(), count * kPageSize) != 0) ++wrong;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0);
  EXPECT_EQ(lane_->outstanding(), 0U);
}

TEST_F(TcpLaneTest, progress_alone_completes_transfers) {
  ScriptedNode node;
  open(node);
  const Segment segment{FrameNo{0}, 1, page_.data()};
  std::array<Transfer, 40> reads;
  for (auto& read : reads) {
    read.segments = {&segment, 1};
    submit(read);
  }
  const Deadline deadline(std::chrono::seconds(10));
  while (lane_->outstanding() > 0 && !deadline.passed()) ASSERT_EQ(lane_->progress(), Errc::ok);
  for (const auto& read : reads) {
    ASSERT_TRUE(read.done());
    EXPECT_EQ(read.result(), Errc::ok);
  }
}

}  // namespace
}  // namespace comex
