// What a process takes from a map that changes while it looks, and that is ahead of what it has heard: what is lost is
// lost for good, and stops the program, so it must not be said of a page that has a place.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <thread>

#include "run/lifeline.h"
#include "run/outpost/outpost.h"

namespace comex {
namespace {

namespace kw = keeper_wire;

std::byte* memory_for_outpost(void*, std::size_t bytes) {
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<std::byte*>(memory);
}

// An outpost whose keeper and map are the test's.
class OutpostMapTest : public testing::Test {
 protected:
  static constexpr NodeId kLost{1};
  static constexpr NodeId kUnheard{2};

  void SetUp() override { open({}); }
  void TearDown() override {
    if (outpost_ != nullptr) Outpost::destroy(outpost_);
    if (map_ != nullptr) ::munmap(map_, ChunkMap::kBytes);
  }

  void open(Code code) {
    TearDown();
    std::array<int, 2> ends{-1, -1};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()), 0);
    keeper_ = Fd(ends[0]);
    Fd file(::memfd_create("map", MFD_CLOEXEC));
    ASSERT_EQ(::ftruncate(file.get(), ChunkMap::kBytes), 0);
    void* const map =
        ::mmap(nullptr, ChunkMap::kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file.get(), 0);
    ASSERT_NE(map, MAP_FAILED);
    map_ = static_cast<ChunkEntry*>(map);
    lifeline_ = *Lifeline::make();
    const Fd line = lifeline_.take_end();
    say(kw::Type::welcome, kw::Welcome{kw::kVersion, code.coded() ? 1U : 2U, code}, std::array{line.get(), file.get()});
    OutpostConfig config;
    config.own = memory_for_outpost;
    ASSERT_EQ(Outpost::create(Fd(ends[1]), config, &outpost_), Errc::ok);
  }

  template <typename Body>
  void say(kw::Type type, const Body& body, std::span<const int> fds = {}) const {
    kw::Head head{type};
    Body copy = body;
    const std::array parts{iovec{&head, sizeof head}, iovec{&copy, sizeof copy}};
    ASSERT_EQ(send_packet(keeper_.get(), parts, fds), Errc::ok);
  }
  void tell_node(NodeId id) const {
    kw::Node node;
    node.id = id;
    node.medium = kw::Medium::tcp;
    node.frames = 1'024;
    say(kw::Type::node, node);
  }
  void lose_node(NodeId id) const {
    tell_node(id);
    say(kw::Type::lost, kw::NodeRef{id, 0});
    outpost_->tend();
  }
  void put(std::size_t word, NodeId node, std::uint32_t frame, bool late = false) const {
    map_[0].places[word].store(ChunkEntry::encode(Location{node, FrameNo{frame}}, late), std::memory_order_release);
  }
  void drop(std::size_t word) const { map_[0].places[word].store(0, std::memory_order_release); }
  // timeout: it may still come; fenced: never.
  [[nodiscard]] Errc verdict() const {
    return outpost_->wait_until_readable(Location{kHome, FrameNo{0}}, Deadline(Millis(0)));
  }

  Fd keeper_;
  Lifeline lifeline_;
  ChunkEntry* map_ = nullptr;
  Outpost* outpost_ = nullptr;
};

TEST_F(OutpostMapTest, lostIsWhatHasNoPlaceButLostOnes) {
  put(0, kLost, 7);
  EXPECT_EQ(verdict(), Errc::timeout) << "the node is not known yet";
  lose_node(kLost);
  EXPECT_EQ(verdict(), Errc::fenced);
  put(1, kUnheard, 7);
  EXPECT_EQ(verdict(), Errc::timeout);
}

TEST_F(OutpostMapTest, whoReadsFromADiskOrWhatIsMadeWaits) {
  EXPECT_TRUE(outpost_->keeps_waiting(kw::kDisk));
  EXPECT_TRUE(outpost_->keeps_waiting(kMade));
  EXPECT_FALSE(outpost_->keeps_waiting(kUnheard));
}

// A chunk has a place as long as it is there: whoever sees none has looked while one went and another came.
TEST_F(OutpostMapTest, noPlaceAtAllIsAGlanceBetweenTwo) {
  EXPECT_EQ(verdict(), Errc::timeout);
}

// The node has a new session under an old id, and has got a copy, while the process has only seen the end of the old.
TEST_F(OutpostMapTest, aPlaceThatWasNotHeardOfIsNotLost) {
  for (const Code code : {Code{}, Code{2, 1}}) {
    open(code);
    lose_node(kLost);
    lose_node(kUnheard);
    put(0, kLost, 7);
    map_[0].since.store(1);
    put(1, kUnheard, 7, true);
    if (code.coded()) put(2, kUnheard, 7, true);
    EXPECT_EQ(verdict(), Errc::timeout) << code.data;
    tell_node(kUnheard);
    say(kw::Type::place, kw::Since{1});
    EXPECT_EQ(verdict(), Errc::timeout) << "it has no lanes yet";
    say(kw::Type::lost, kw::NodeRef{kUnheard, 0});
    EXPECT_EQ(verdict(), Errc::fenced);
  }
}

// One place is lost, another is made in its stead, and then the other is lost and made again: at every moment of it
// there is one. A reader who meets the first at the beginning and the second at the end must look again.
TEST_F(OutpostMapTest, placesThatComeAndGoWhileOneLooks) {
  lose_node(kLost);
  put(0, kLost, 0);
  put(1, kUnheard, 0);
  std::atomic<bool> stop{false};
  std::thread keeper([&] {
    for (std::uint32_t cycle = 1; !stop.load(std::memory_order_relaxed); ++cycle) {
      drop(0);
      put(0, kUnheard, 0);
      drop(1);
      put(1, kUnheard, 0);
      drop(0);
      put(0, kLost, cycle);  // never the same again
    }
  });
  int lost = 0;
  for (int i = 0; i < 100'000; ++i) lost += verdict() == Errc::fenced;
  stop = true;
  keeper.join();
  EXPECT_EQ(lost, 0);
}

}  // namespace
}  // namespace comex
