#include "run/keeper/tracer.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <optional>

#include "trace/reader.h"

namespace comex {
namespace {

struct Seen final : TraceVisitor {
  void process(const TraceProcess& process) override { processes.push_back(process); }
  void fault(const TraceFault& fault) override { faults.push_back(fault); }
  void dropped(std::uint32_t, std::uint64_t, std::uint64_t count) override { lost += count; }

  std::vector<TraceProcess> processes;
  std::vector<TraceFault> faults;
  std::uint64_t lost = 0;
};

// A room with two rings, as `comex run` makes it, and the tracer over it.
class TracerTest : public ::testing::Test {
 protected:
  static constexpr std::size_t kRings = 2;
  static constexpr std::size_t kBytes = Room::rings_at() + kRings * sizeof(TraceRing);

  TracerTest() : memory_(memfd_create("room", MFD_CLOEXEC)), file_(memfd_create("trace", MFD_CLOEXEC)) {
    EXPECT_EQ(ftruncate(memory_.get(), kBytes), 0);
    base_ = static_cast<std::byte*>(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory_.get(), 0));
    room_ = new (base_) Room(Room::InZeros{});
    EXPECT_EQ(write(file_.get(), "what was there before", 21), 21);
    EXPECT_EQ(lseek(file_.get(), 0, SEEK_SET), 0);
  }
  ~TracerTest() override { munmap(base_, kBytes); }

  void start() { tracer_.emplace(*room_, std::span(&ring(0), kRings), memory_, file_, TraceHeader{.command = "test"}); }
  TraceRing& ring(std::size_t i) {
    return *reinterpret_cast<TraceRing*>(base_ + Room::rings_at() + i * sizeof(TraceRing));
  }
  // The account of a process that has woken.
  void begin(std::uint32_t pid, const char* name) {
    Room::Owned* const owned = room_->open_account(pid);
    ring(static_cast<std::size_t>(owned - room_->accounts.data())).begin(1, name);
    owned->traced = true;
  }
  // What is in the file when the tracer has ended.
  Seen seen() {
    tracer_.reset();
    std::vector<std::byte> bytes(static_cast<std::size_t>(lseek(file_.get(), 0, SEEK_END)));
    EXPECT_EQ(pread(file_.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
    Seen seen;
    const auto reader = TraceReader::open(bytes);
    EXPECT_TRUE(reader && reader->header().command == "test");
    const auto cut = reader->read(seen);
    EXPECT_TRUE(cut && !*cut);
    return seen;
  }

  Fd memory_;
  Fd file_;
  std::byte* base_ = nullptr;
  Room* room_ = nullptr;
  std::optional<Tracer> tracer_;
};

TEST_F(TracerTest, writesWhatProcessesPutIntoTheirRings) {
  start();
  begin(10, "first");
  begin(20, "second");
  for (std::uint64_t i = 0; i < 10'000; ++i) {
    ring(i % 2).put({.time = i, .page = 7 * i, .thread = 3, .origin = Origin::remote});
  }
  const Seen seen = this->seen();
  ASSERT_EQ(seen.processes.size(), 2U);
  EXPECT_EQ(seen.processes[0].pid + seen.processes[1].pid, 30U);
  EXPECT_EQ(seen.faults.size(), 10'000U);
  EXPECT_EQ(seen.lost, 0U);
}

TEST_F(TracerTest, saysWhatWasDropped) {
  begin(10, "first");
  for (std::uint64_t i = 0; i < TraceRing::kSlots + 4; ++i) ring(0).put({.time = i, .origin = Origin::zeros});
  start();
  const Seen seen = this->seen();
  EXPECT_EQ(seen.faults.size(), TraceRing::kSlots - 1);
  EXPECT_EQ(seen.lost, 5U);
}

// A thread that was killed before it had filled its slot; and what a program may have left in one.
TEST_F(TracerTest, finish_passesByWhatIsNoFault) {
  start();
  begin(10, "first");
  ring(0).put({.time = 5, .origin = Origin::zeros});
  reinterpret_cast<std::atomic<std::uint64_t>&>(ring(0)).fetch_add(1);  // a slot is taken
  ring(0).put({.time = 6, .origin = static_cast<Origin>(15)});
  ring(0).put({.time = 7, .origin = Origin::zeros});
  tracer_->finish(0);
  room_->close_account(room_->accounts[0]);
  begin(30, "third");  // in the same account
  ring(0).put({.time = 8, .origin = Origin::zeros});
  const Seen seen = this->seen();
  ASSERT_EQ(seen.processes.size(), 2U);
  EXPECT_EQ(seen.processes[1].pid, 30U);
  EXPECT_EQ(seen.faults.size(), 3U);
  EXPECT_EQ(seen.lost, 1U);
}

TEST_F(TracerTest, aRingThatNobodyUsesTakesNoMemory) {
  start();
  (void)room_->open_account(10);  // dormant
  begin(20, "second");
  tracer_->finish(1);
  std::array<unsigned char, kBytes / kPageSize> there{};
  ASSERT_EQ(mincore(base_, kBytes, there.data()), 0);
  std::size_t pages = 0;
  for (std::size_t i = Room::rings_at() / kPageSize; i < there.size(); ++i) pages += there[i] & 1;
  EXPECT_EQ(pages, 0U);
  (void)seen();
}

}  // namespace
}  // namespace comex
