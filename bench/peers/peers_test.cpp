// Every peer keeps what it is given and moves batches both ways; a program that is not installed is skipped.
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdlib>
#include <filesystem>

#include "bench/measure.h"
#include "bench/peers/bare_tcp.h"
#include "bench/peers/mapped.h"
#include "bench/peers/nbdkit.h"
#include "bench/peers/perftest.h"
#include "bench/peers/redis.h"

namespace comex::bench {
namespace {

constexpr std::uint32_t kPages = 4 * kBatchPages;
constexpr Millis kSlice{20};

void exercise(Expected<std::unique_ptr<Peer>> made) {
  if (!made && made.error().code == Errc::unsupported) GTEST_SKIP() << made.error().message;
  ASSERT_TRUE(made) << made.error().message;
  Peer& peer = **made;
  const Expected<void> filled = fill(peer, kPages);
  ASSERT_TRUE(filled) << filled.error().message;
  Samples samples(100'000);
  for (const Direction direction : {Direction::read, Direction::write}) {
    const Expected<Summary> latency = measure_latency(peer, {direction, 16}, kPages, kSlice, samples);
    ASSERT_TRUE(latency) << latency.error().message;
    EXPECT_GT(latency->count, 0u);
    const Expected<double> rate = measure_throughput(peer, direction, 2, kPages, kSlice);
    ASSERT_TRUE(rate) << rate.error().message;
    EXPECT_GT(*rate, 0);
  }
}

class Peers : public testing::Test {
 protected:
  Expected<TempFolder> folder_ = TempFolder::create();
};

TEST_F(Peers, mapped) {
  exercise(Mapped::create(kPages));
}
TEST_F(Peers, bareTcp) {
  exercise(BareTcp::create());
}
TEST_F(Peers, redis) {
  exercise(Redis::create(folder_->path()));
}
TEST_F(Peers, nbdkit) {
  exercise(Nbdkit::create(folder_->path(), kPages));
}

// The rest of it needs an RDMA device: tests/vm/rdma_figures_in_guest.
TEST_F(Peers, perftest_thatIsNotInstalled) {
  const std::string path = std::getenv("PATH");
  ::setenv("PATH", folder_->path().c_str(), 1);
  const auto made = Perftest::create(*parse_url("rdma://127.0.0.1:7171"), folder_->path(), [] {});
  ::setenv("PATH", path.c_str(), 1);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, Errc::unsupported);
  EXPECT_NE(made.error().message.find("apt install perftest"), std::string::npos) << made.error().message;
}

TEST(Child, stop_endsTheProgram) {
  const Expected<TempFolder> folder = TempFolder::create();
  Expected<Child> child = Child::spawn({"sleep", "1000"}, folder->path() + "/log");
  ASSERT_TRUE(child);
  const pid_t pid = child->pid();
  EXPECT_TRUE(child->running());
  child->stop();
  EXPECT_FALSE(child->running());
  EXPECT_EQ(::kill(pid, 0), -1);
}

TEST(Child, stop_killsWhoDoesNotListen) {
  // Blocked before the fork, so that the child is deaf from its first moment.
  sigset_t deaf;
  sigset_t before;
  sigemptyset(&deaf);
  sigaddset(&deaf, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &deaf, &before);
  Expected<Child> child = Child::fork([] {
    for (;;) ::pause();
    return 0;
  });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  ASSERT_TRUE(child);
  const pid_t pid = child->pid();
  child->stop();
  EXPECT_EQ(::kill(pid, 0), -1);
}

TEST(TempFolder, goesWithItsContents) {
  std::string path;
  {
    const Expected<TempFolder> folder = TempFolder::create();
    ASSERT_TRUE(folder);
    path = folder->path();
    std::filesystem::create_directories(path + "/a/b");
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace comex::bench
