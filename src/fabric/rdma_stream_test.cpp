// A stream on a device that the test plays.
#include "fabric/rdma_stream.h"

#include <gtest/gtest.h>

#include <thread>

#include "fabric/fake_rdma_device_test.h"

namespace comex {
namespace {

constexpr int kLooks = 1000;

// A link that breaks shuts its control connection, from whatever thread hears of it first.
TEST(RdmaStream, shut_waitsForWhatIsBeingPosted) {
  FakeRdmaDevice device;
  const auto stream = device.connect(device.domain(), {RdmaStream::kControlBuffers, RdmaStream::kControlBuffers});
  ASSERT_NE(stream, nullptr);
  std::jthread other;
  bool there = true;
  device.when_posted = [&] {
    std::atomic<bool> shuts{false};
    other = std::jthread([&] {
      shuts = true;
      stream->shut();
    });
    while (!shuts) std::this_thread::yield();
    for (int i = 0; i < kLooks && there; ++i) {
      std::this_thread::yield();
      there = device.pairs == 1;
    }
  };
  std::byte byte{1};
  const iovec one{&byte, 1};
  (void)stream->write({&one, 1});
  EXPECT_TRUE(there) << "the queue pair must not go while something is posted to it";
  other.join();
  EXPECT_EQ(device.pairs, 0U);
  EXPECT_EQ(stream->write({&one, 1}).error, Errc::disconnected);
}

}  // namespace
}  // namespace comex
