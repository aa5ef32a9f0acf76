#include "node/ledger.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <random>
#include <set>

#include "wire/auth.h"

namespace comex {
namespace {

constexpr std::uint32_t kFramesPerSlab = 512;

class LedgerTest : public testing::Test {
 protected:
  static constexpr std::uint32_t kSlabs = 8;

  void SetUp() override {
    auto arena = Arena::create({.bytes = std::uint64_t{kSlabs} * kFramesPerSlab * kPageSize, .lock = false});
    ASSERT_TRUE(arena) << arena.error().message;
    arena_ = *std::move(arena);
    ledger_ = std::make_unique<Ledger>(*arena_, LedgerConfig{});
  }

  std::shared_ptr<Client> admit(Medium medium = Medium::tcp) {
    auto client = ledger_->admit(ledger_->next_id(), wire::make_nonce(), Arrival{medium, 0, 0, "", "", nullptr});
    EXPECT_TRUE(client);
    return *client;
  }
  std::vector<Extent> grant(Client& client, std::uint32_t frames, unsigned min_order = 0) {
    auto extents = ledger_->grant(client, frames, min_order);
    EXPECT_TRUE(extents) << extents.error().message;
    return extents ? *extents : std::vector<Extent>();
  }
  // Every byte of the extents is `value`.
  bool filled(const std::vector<Extent>& extents, int value) const {
    for (const auto& e : extents) {
      const std::byte* at = arena_->frame_address(e.first);
      for (std::size_t i = 0; i < e.bytes(); ++i) {
        if (at[i] != static_cast<std::byte>(value)) return false;
      }
    }
    return true;
  }
  void fill(const std::vector<Extent>& extents, int value) {
    for (const auto& e : extents) std::memset(arena_->frame_address(e.first), value, e.bytes());
  }
  // Looks for silent clients often enough, as a server does, while this much time passes. How many were ended.
  std::size_t pass_time(Millis span) {
    std::size_t ended = 0;
    for (const auto end = now_ + span; now_ < end;) {
      now_ = std::min(end, now_ + LedgerConfig{}.lease / 4);
      ended += ledger_->end_silent(now_);
    }
    return ended;
  }
  std::uint32_t free_frames() const { return ledger_->load().free_frames; }

  std::unique_ptr<Arena> arena_;
  std::unique_ptr<Ledger> ledger_;
  Clock::time_point now_ = Clock::now();
};

TEST_F(LedgerTest, grant_and_give_back) {
  const auto client = admit();
  const auto extents = grant(*client, 200, kUsualMinOrder);
  for (const auto& e : extents) EXPECT_GE(e.count, 128U);
  EXPECT_EQ(client->holdings.frames() + free_frames(), arena_->frames());
  EXPECT_TRUE(ledger_->give_back(*client, extents));
  EXPECT_EQ(free_frames(), arena_->frames());
}

TEST_F(LedgerTest, grant_says_a_plain_no_when_nothing_is_large_enough) {
  const auto client = admit();
  grant(*client, kSlabs * kFramesPerSlab);
  const auto more = ledger_->grant(*client, 128, 7);
  ASSERT_FALSE(more);
  EXPECT_EQ(more.error().code, Errc::no_memory);
}

TEST_F(LedgerTest, give_back_of_what_is_not_held_changes_nothing) {
  const auto a = admit();
  const auto b = admit();
  const auto of_a = grant(*a, 128);
  const auto of_b = grant(*b, 128);
  const auto done = ledger_->give_back(*b, {of_b[0], of_a[0]});
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Errc::denied);
  EXPECT_TRUE(a->holdings.holds(of_a[0]));
  EXPECT_TRUE(b->holdings.holds(of_b[0])) << "all or none";
  EXPECT_FALSE(ledger_->give_back(*b, {of_b[0], of_b[0]})) << "nor twice in one call";
  EXPECT_TRUE(b->holdings.holds(of_b[0]));
}

TEST_F(LedgerTest, nobody_sees_what_another_client_left) {
  for (const auto& [first, second] : {std::pair{Medium::tcp, Medium::tcp}, std::pair{Medium::tcp, Medium::shm},
                                      std::pair{Medium::shm, Medium::tcp}, std::pair{Medium::shm, Medium::shm}}) {
    const auto before = admit(first);
    const auto extents = grant(*before, kSlabs * kFramesPerSlab);
    fill(extents, 0x5a);
    ledger_->end(*before);
    const auto after = admit(second);
    EXPECT_TRUE(filled(grant(*after, kSlabs * kFramesPerSlab), 0));
    ledger_->end(*after);
  }
}

TEST_F(LedgerTest, tcp_frames_are_scrubbed_even_within_a_slab) {
  const auto a = admit();
  const auto b = admit();
  const auto of_a = grant(*a, 128);
  grant(*b, 128);  // keeps the slab in use
  fill(of_a, 1);
  ASSERT_TRUE(ledger_->give_back(*a, of_a));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(filled(grant(*b, 128), 0));
}

TEST_F(LedgerTest, shm_families_never_share_a_slab) {
  const auto a = admit(Medium::shm);
  const auto b = admit(Medium::shm);
  const auto c = admit(Medium::tcp);
  std::set<std::uint32_t> slabs;
  for (const auto& client : {a, b, c}) slabs.insert(grant(*client, 1)[0].first.value / kFramesPerSlab);
  EXPECT_EQ(slabs.size(), 3U);
}

TEST_F(LedgerTest, slab_descriptors_only_of_slabs_held) {
  const auto a = admit(Medium::shm);
  const auto b = admit(Medium::shm);
  const auto tcp = admit(Medium::tcp);
  const std::uint32_t slab = grant(*a, 1)[0].first.value / kFramesPerSlab;
  EXPECT_TRUE(ledger_->slab_descriptors(*a, {slab}));
  EXPECT_EQ(ledger_->slab_descriptors(*b, {slab}).error().code, Errc::denied);
  EXPECT_EQ(ledger_->slab_descriptors(*b, {9999}).error().code, Errc::denied);
  const std::uint32_t common = grant(*tcp, 1)[0].first.value / kFramesPerSlab;
  EXPECT_EQ(ledger_->slab_descriptors(*tcp, {common}).error().code, Errc::denied);
}

TEST_F(LedgerTest, memory_that_a_zombie_still_maps_is_never_handed_out) {
  const auto a = admit(Medium::shm);
  const auto of_a = grant(*a, kSlabs * kFramesPerSlab);
  std::vector<std::uint32_t> slabs;
  for (std::uint32_t s = 0; s < kSlabs; ++s) slabs.push_back(s);
  const auto kept = ledger_->slab_descriptors(*a, slabs);
  ASSERT_TRUE(kept);
  void* zombie = mmap(nullptr, kFramesPerSlab * kPageSize, PROT_READ | PROT_WRITE, MAP_SHARED, (*kept)[0].get(), 0);
  ASSERT_NE(zombie, MAP_FAILED);
  std::memset(zombie, 0x77, kPageSize);
  ledger_->end(*a);

  const auto b = admit(Medium::shm);
  const auto of_b = grant(*b, kSlabs * kFramesPerSlab);  // has to wait for slabs to be replaced, and does so by itself
  ASSERT_FALSE(of_b.empty());
  EXPECT_TRUE(filled(of_b, 0));
  fill(of_b, 0x33);
  EXPECT_NE(*static_cast<unsigned char*>(zombie), 0x33);
  std::memset(zombie, 0x44, kFramesPerSlab * kPageSize);
  EXPECT_TRUE(filled(of_b, 0x33));
  munmap(zombie, kFramesPerSlab * kPageSize);
}

TEST_F(LedgerTest, withheld_slabs_come_back) {
  const auto a = admit(Medium::shm);
  grant(*a, kSlabs * kFramesPerSlab);
  ASSERT_TRUE(ledger_->slab_descriptors(*a, {0, 1, 2, 3, 4, 5, 6, 7}));
  ledger_->end(*a);
  EXPECT_EQ(free_frames(), 0U);
  while (ledger_->renew_some(3)) {
  }
  EXPECT_EQ(free_frames(), arena_->frames());
}

TEST_F(LedgerTest, share_makes_an_heir_that_holds_the_same_frames) {
  for (const auto medium : {Medium::tcp, Medium::shm}) {
    const auto parent = admit(medium);
    const auto extents = grant(*parent, 128);
    const auto share = ledger_->share(*parent);
    ASSERT_TRUE(share);
    const auto heir = ledger_->find(share->heir);
    ASSERT_TRUE(heir);
    EXPECT_TRUE(heir->holdings.holds(extents[0]));
    EXPECT_EQ(heir->key, wire::heir_key(parent->key, *share));

    ASSERT_TRUE(ledger_->give_back(*parent, extents));
    EXPECT_LT(free_frames(), arena_->frames()) << "the heir still holds them";
    EXPECT_FALSE(ledger_->give_back(*parent, extents)) << "once each";
    ASSERT_TRUE(ledger_->give_back(*heir, extents));
    EXPECT_EQ(free_frames(), arena_->frames());
    ledger_->end(*parent);
    ledger_->end(*heir);
  }
}

TEST_F(LedgerTest, silent_clients_are_ended_and_fenced) {
  const auto silent = admit(Medium::shm);
  grant(*silent, 128);
  const auto heir = ledger_->share(*silent);
  ASSERT_TRUE(heir);
  EXPECT_EQ(pass_time(LedgerConfig{}.lease - Millis(100)), 0U);
  EXPECT_EQ(pass_time(Millis(2'000)), 2U) << "an heir that nobody claimed as well";
  EXPECT_TRUE(silent->fenced.load());
  EXPECT_EQ(ledger_->grant(*silent, 1, 0).error().code, Errc::fenced);
  EXPECT_EQ(ledger_->share(*silent).error().code, Errc::fenced);
  EXPECT_FALSE(ledger_->find(silent->id));
  EXPECT_EQ(free_frames(), arena_->frames());
}

TEST_F(LedgerTest, nobody_is_ended_for_silence_while_the_node_itself_was_away) {
  const auto client = admit();
  const auto extents = grant(*client, 8);
  now_ += 3 * LedgerConfig{}.lease;
  EXPECT_EQ(ledger_->end_silent(now_), 0U);
  EXPECT_TRUE(client->holdings.holds(extents[0]));
  EXPECT_EQ(pass_time(LedgerConfig{}.lease + Millis(2'000)), 1U) << "but it must be heard from then on";
}

// The silent one may be stopped in the middle of a copy into a frame that only it held.
TEST_F(LedgerTest, frames_of_a_silent_client_are_not_given_to_its_family_while_the_slab_lives) {
  const auto parent = admit(Medium::shm);
  const auto shared = grant(*parent, 8);
  const auto share = ledger_->share(*parent);
  ASSERT_TRUE(share);
  const auto own = grant(*parent, 64);
  ASSERT_EQ(own[0].first.value / kFramesPerSlab, shared[0].first.value / kFramesPerSlab);
  const auto heir = ledger_->find(share->heir);
  pass_time(LedgerConfig{}.lease - Millis(100));
  heir->touch(now_);
  ASSERT_EQ(pass_time(Millis(2'000)), 1U);
  ASSERT_TRUE(parent->fenced.load());
  for (int i = 0; i < 6; ++i) {
    for (const auto& e : grant(*heir, 64)) {
      EXPECT_TRUE(e.end() <= own[0].first.value || own[0].end() <= e.first.value) << "the late copy would land here";
    }
  }
  ledger_->end(*heir);
  EXPECT_EQ(free_frames(), arena_->frames());
}

// --- memory that the host wants back ---

std::uint32_t slabs_present(const Ledger& ledger) {
  wire::StatusReply status;
  ledger.describe(status);
  return status.present / kFramesPerSlab;
}

TEST_F(LedgerTest, aim_what_is_free_goes_at_once) {
  const auto client = admit();
  ASSERT_EQ(grant(*client, 128).size(), 1U);
  ledger_->aim(3 * kFramesPerSlab);
  EXPECT_EQ(slabs_present(*ledger_), 3U);
  EXPECT_TRUE(ledger_->asked_of(*client).empty()) << "nobody has to move";
  EXPECT_EQ(free_frames(), 3 * kFramesPerSlab - 128);
  // And comes back.
  ledger_->aim(UINT32_MAX);
  while (ledger_->adjust()) {
  }
  EXPECT_EQ(slabs_present(*ledger_), kSlabs);
  EXPECT_EQ(free_frames(), kSlabs * kFramesPerSlab - 128);
  EXPECT_TRUE(filled(grant(*client, kSlabs * kFramesPerSlab - 128), 0));
}

TEST_F(LedgerTest, aim_asks_holders_and_gives_nothing_more_of_what_they_are_to_leave) {
  for (const Medium medium : {Medium::tcp, Medium::shm}) {
    const auto client = admit(medium);
    const auto extents = grant(*client, kSlabs * kFramesPerSlab);
    if (medium == Medium::shm) {
      ASSERT_TRUE(ledger_->slab_descriptors(*client, {0, 1, 2, 3, 4, 5, 6, 7}));
    }
    fill(extents, 1);
    // Two slabs are nearly empty: they are the least work.
    const Extent most_of_2{FrameNo{2 * kFramesPerSlab}, kFramesPerSlab - 8};
    const Extent most_of_5{FrameNo{5 * kFramesPerSlab + 8}, kFramesPerSlab - 8};
    ASSERT_TRUE(ledger_->give_back(*client, {most_of_2, most_of_5}));
    ledger_->aim(6 * kFramesPerSlab);
    EXPECT_EQ(ledger_->asked_of(*client), (std::vector<std::uint32_t>{2, 5}));
    EXPECT_EQ(ledger_->load_for(*client).asked, 16U);
    EXPECT_EQ(slabs_present(*ledger_), kSlabs) << "they are still in use";
    EXPECT_FALSE(ledger_->grant(*client, 1, 0)) << "the free frames there are not to be had";
    EXPECT_EQ(free_frames(), 0U);
    ASSERT_TRUE(ledger_->give_back(*client, {Extent{FrameNo{3 * kFramesPerSlab - 8}, 8}}));
    EXPECT_EQ(slabs_present(*ledger_), kSlabs - 1);
    ASSERT_TRUE(ledger_->give_back(*client, {Extent{FrameNo{5 * kFramesPerSlab}, 8}}));
    EXPECT_EQ(slabs_present(*ledger_), 6U);
    EXPECT_EQ(ledger_->load_for(*client).asked, 0U);
    ledger_->aim(UINT32_MAX);
    while (ledger_->adjust() || ledger_->renew_some(1)) {
    }
    EXPECT_TRUE(filled(grant(*client, 2 * kFramesPerSlab), 0));
    ledger_->end(*client);
    while (ledger_->renew_some(8)) {
    }
    EXPECT_EQ(free_frames(), kSlabs * kFramesPerSlab);
  }
}

TEST_F(LedgerTest, aim_taken_back_before_anybody_moved) {
  const auto client = admit();
  const auto extents = grant(*client, kSlabs * kFramesPerSlab);
  ASSERT_TRUE(ledger_->give_back(*client, {Extent{FrameNo{8}, 100}, Extent{FrameNo{kFramesPerSlab}, 3}}));
  ledger_->aim(0);
  EXPECT_EQ(ledger_->asked_of(*client).size(), kSlabs);
  EXPECT_EQ(free_frames(), 0U);
  ASSERT_TRUE(ledger_->give_back(*client, {Extent{FrameNo{200}, 50}}));
  ledger_->aim(UINT32_MAX);
  ledger_->adjust();
  EXPECT_TRUE(ledger_->asked_of(*client).empty());
  EXPECT_EQ(free_frames(), 153U);
  ledger_->end(*client);
  EXPECT_EQ(free_frames(), kSlabs * kFramesPerSlab);
  EXPECT_EQ(ledger_->load().largest_free, kFramesPerSlab);
}

TEST_F(LedgerTest, aim_a_client_that_ends_has_moved_out) {
  const auto client = admit(Medium::shm);
  grant(*client, kSlabs * kFramesPerSlab);
  ASSERT_TRUE(ledger_->slab_descriptors(*client, {0, 1}));
  ledger_->aim(0);
  ASSERT_EQ(pass_time(LedgerConfig{}.lease + Millis(2'000)), 1U) << "in silence, so that its frames are quarantined";
  EXPECT_EQ(slabs_present(*ledger_), 0U);
  EXPECT_FALSE(ledger_->grant(*admit(), 1, 0));
}

// What a network device would serve: which slabs have keys, and what was in them when the key went.
class FakeAccess final : public RemoteAccess {
 public:
  Expected<wire::SlabKey> open(std::uint32_t slab, std::byte* memory, std::size_t) override {
    keys[slab] = memory;
    return wire::SlabKey{reinterpret_cast<std::uintptr_t>(memory), slab};
  }
  void close(std::uint32_t slab) noexcept override { keys.erase(slab); }
  std::map<std::uint32_t, std::byte*> keys;
};

// A lane that the device serves, as far as the ledger knows.
class FakeLane final : public Stream {
 public:
  IoResult read(std::span<const iovec>) noexcept override { return {}; }
  IoResult write(std::span<const iovec>) noexcept override { return {}; }
  [[nodiscard]] int fd() const noexcept override { return -1; }
  void shut() noexcept override { cut = true; }
  bool cut = false;
};

class DirectLedgerTest : public LedgerTest {
 protected:
  std::shared_ptr<Client> admit_direct(std::shared_ptr<FakeAccess> access) {
    auto client = ledger_->admit(ledger_->next_id(), wire::make_nonce(), Arrival{Medium::rdma, 0, 0, "", "", access});
    EXPECT_TRUE(client);
    return *client;
  }
  std::shared_ptr<FakeAccess> access_ = std::make_shared<FakeAccess>();
};

TEST_F(DirectLedgerTest, slab_keys_onlyOfSlabsHeld) {
  const auto client = admit_direct(access_);
  const auto mine = grant(*client, 8, 3);
  const std::uint32_t slab = mine[0].first.value / kFramesPerSlab;
  const auto keys = ledger_->slab_keys(*client, {slab});
  ASSERT_TRUE(keys) << keys.error().message;
  EXPECT_EQ(keys->keys[0].address,
            reinterpret_cast<std::uintptr_t>(arena_->frame_address(FrameNo{slab * kFramesPerSlab})));
  EXPECT_EQ(ledger_->slab_keys(*client, {(slab + 1) % kSlabs}).error().code, Errc::denied);
  EXPECT_EQ(ledger_->slab_keys(*admit(), {slab}).error().code, Errc::denied) << "not over TCP";
}

TEST_F(DirectLedgerTest, families_never_share_a_slab) {
  const auto one = admit_direct(access_);
  const auto two = admit_direct(std::make_shared<FakeAccess>());
  const auto tcp = admit();
  std::set<std::uint32_t> slabs;
  for (const auto& client : {one, two, tcp}) slabs.insert(grant(*client, 8, 3)[0].first.value / kFramesPerSlab);
  EXPECT_EQ(slabs.size(), 3U);
}

TEST_F(DirectLedgerTest, key_goesWithTheLastFrameOfTheFamily) {
  const auto client = admit_direct(access_);
  const auto frames = grant(*client, 8, 3);
  ASSERT_TRUE(ledger_->slab_keys(*client, {frames[0].first.value / kFramesPerSlab}));
  const auto share = ledger_->share(*client);
  ASSERT_TRUE(share);
  ASSERT_TRUE(ledger_->give_back(*client, frames));
  EXPECT_EQ(access_->keys.size(), 1U) << "the heir holds them";
  ASSERT_TRUE(ledger_->give_back(*ledger_->find(share->heir), frames));
  EXPECT_TRUE(access_->keys.empty());
}

TEST_F(DirectLedgerTest, silence_cutsLanesAndTakesKeys) {
  const auto client = admit_direct(access_);
  const auto frames = grant(*client, 8, 3);
  ASSERT_TRUE(ledger_->slab_keys(*client, {frames[0].first.value / kFramesPerSlab}));
  const auto lane = std::make_shared<FakeLane>();
  client->direct.push_back(lane);
  EXPECT_EQ(pass_time(LedgerConfig{}.lease * 2), 1U);
  EXPECT_TRUE(lane->cut);
  EXPECT_TRUE(access_->keys.empty());
  EXPECT_EQ(ledger_->load().free_frames, arena_->frames()) << "nothing is in quarantine: the device has stopped";
  EXPECT_EQ(ledger_->slab_keys(*client, {0}).error().code, Errc::fenced);
}

// --- compaction ---

// A node of 128 slabs with one client, all of whose slabs are half full.
class CompactionTest : public testing::Test {
 protected:
  static constexpr std::uint32_t kSlabs = 128;

  void SetUp() override {
    auto arena =
        Arena::create({.bytes = std::uint64_t{kSlabs} * kFramesPerSlab * kPageSize, .lock = false, .ahead = false});
    ASSERT_TRUE(arena) << arena.error().message;
    arena_ = *std::move(arena);
    ledger_ = std::make_unique<Ledger>(*arena_, LedgerConfig{});
    client_ = *ledger_->admit(ledger_->next_id(), wire::make_nonce(), Arrival{Medium::tcp, 0, 0, "", "", nullptr});
    for (std::uint32_t frames = 0; frames < arena_->frames(); frames += 1U << 14) {
      ASSERT_TRUE(ledger_->grant(*client_, 1U << 14, 9));
    }
    for (std::uint32_t slab = 0; slab < kSlabs; ++slab) {
      for (std::uint32_t chunk = 0; chunk < 8; chunk += 2) {
        ASSERT_TRUE(ledger_->give_back(*client_, {Extent{FrameNo{slab * kFramesPerSlab + chunk * 64}, 64}}));
      }
    }
  }
  std::unique_ptr<Arena> arena_;
  std::unique_ptr<Ledger> ledger_;
  std::shared_ptr<Client> client_;
  Clock::time_point now_ = Clock::now();
};

TEST_F(CompactionTest, slabs_are_emptied_until_there_are_long_extents) {
  ASSERT_FALSE(ledger_->grant(*client_, 128, kUsualMinOrder)) << "half of it is free, and of no use";
  ledger_->adjust(now_);
  const auto asked = ledger_->asked_of(*client_);
  ASSERT_EQ(asked.size(), kSlabs / 32);
  for (const std::uint32_t slab : asked) {
    for (std::uint32_t chunk = 1; chunk < 8; chunk += 2) {
      ASSERT_TRUE(ledger_->grant(*client_, 64, 6)) << "a place for it elsewhere";
      ASSERT_TRUE(ledger_->give_back(*client_, {Extent{FrameNo{slab * kFramesPerSlab + chunk * 64}, 64}}));
    }
  }
  EXPECT_EQ(ledger_->load().largest_free, kFramesPerSlab);
  ledger_->adjust(now_);
  EXPECT_TRUE(ledger_->asked_of(*client_).empty()) << "that is enough";
}

TEST_F(CompactionTest, who_does_not_move_is_left_alone_for_a_while) {
  const std::uint32_t free = ledger_->load().free_frames;
  ledger_->adjust(now_);
  EXPECT_LT(ledger_->load().free_frames, free);
  ledger_->adjust(now_ += LedgerConfig{}.compact_patience);
  EXPECT_TRUE(ledger_->asked_of(*client_).empty());
  EXPECT_EQ(ledger_->load().free_frames, free);
  ledger_->adjust(now_ += LedgerConfig{}.compact_pause);
  EXPECT_FALSE(ledger_->asked_of(*client_).empty());
}

TEST_F(CompactionTest, who_is_in_need_gets_what_there_is) {
  ledger_->adjust(now_);
  std::uint32_t got = 0;
  for (auto extents = ledger_->grant(*client_, 64, 0); extents; extents = ledger_->grant(*client_, 64, 0)) got += 64;
  EXPECT_EQ(got, arena_->frames() / 2);
}

TEST_F(CompactionTest, who_moves_and_finds_no_hole_does_not_end_it) {
  ledger_->adjust(now_);
  const auto asked = ledger_->asked_of(*client_);
  ASSERT_FALSE(asked.empty());
  while (ledger_->grant(*client_, 64, 6)) {
  }
  EXPECT_EQ(ledger_->asked_of(*client_), asked);
}

TEST_F(CompactionTest, not_when_it_is_nearly_full) {
  while (ledger_->load().free_frames >= arena_->frames() / 12) ASSERT_TRUE(ledger_->grant(*client_, 64, 6));
  ledger_->adjust(now_);
  EXPECT_TRUE(ledger_->asked_of(*client_).empty());
}

TEST_F(LedgerTest, client_limit) {
  Ledger small(*arena_, LedgerConfig{.max_clients = 1});
  ASSERT_TRUE(small.admit(small.next_id(), {}, {}));
  const auto second = small.admit(small.next_id(), {}, {});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Errc::busy);
}

TEST_F(LedgerTest, metadata_is_at_most_half_a_percent) {
  std::vector<std::shared_ptr<Client>> clients;
  for (int i = 0; i < 4; ++i) clients.push_back(admit(Medium::shm));
  for (int i = 0; i < 8; ++i) grant(*clients[static_cast<std::size_t>(i) % 4], kFramesPerSlab);
  wire::StatusReply status;
  ledger_->describe(status);
  EXPECT_LE(static_cast<double>(status.metadata_bytes), 0.005 * static_cast<double>(arena_->frames()) * kPageSize);
}

// Clients come, take, share, return, end and come again; a simple model keeps who holds what.
TEST_F(LedgerTest, agrees_with_a_model_across_restarts_of_clients) {
  const char* given = std::getenv("COMEX_TEST_SEED");
  const auto seed = given != nullptr ? std::strtoul(given, nullptr, 10) : std::random_device{}();
  SCOPED_TRACE("COMEX_TEST_SEED=" + std::to_string(seed));
  std::mt19937 random(static_cast<std::mt19937::result_type>(seed));
  struct Modelled {
    std::shared_ptr<Client> client;
    std::vector<Extent> extents;
  };
  std::vector<Modelled> clients;
  std::vector<int> references(arena_->frames());
  const auto pick = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  const auto count = [&](const Modelled& m, int by) {
    for (const auto& e : m.extents) {
      for (auto f = e.first.value; f < e.end(); ++f) references[f] += by;
    }
  };
  std::uint32_t aim = kSlabs;
  for (int step = 0; step < 20'000; ++step) {
    const auto what = pick(10);
    if (pick(100) == 0) ledger_->aim((aim = static_cast<std::uint32_t>(pick(2 * kSlabs))) * kFramesPerSlab);
    ledger_->adjust();
    if (clients.empty() || (what == 0 && clients.size() < 12)) {
      clients.push_back({admit(pick(2) == 0 ? Medium::shm : Medium::tcp), {}});
    } else if (what == 1) {
      const auto at = clients.begin() + static_cast<std::ptrdiff_t>(pick(clients.size()));
      ledger_->end(*at->client);
      count(*at, -1);
      clients.erase(at);
    } else if (what == 2 && clients.size() < 12) {
      const Modelled& parent = clients[pick(clients.size())];
      const auto share = ledger_->share(*parent.client);
      ASSERT_TRUE(share);
      clients.push_back({ledger_->find(share->heir), parent.extents});
      count(clients.back(), 1);
    } else if (Modelled& m = clients[pick(clients.size())]; what < 7) {
      const unsigned order = static_cast<unsigned>(pick(8));
      const auto extents = ledger_->grant(*m.client, 1U << pick(9), order);
      if (!extents) continue;
      for (const auto& e : *extents) {
        ASSERT_GE(e.count, 1U << order);
        for (auto f = e.first.value; f < e.end(); ++f) ASSERT_EQ(references[f]++, 0) << "handed out twice: " << f;
        m.extents.push_back(e);
      }
    } else if (!m.extents.empty()) {
      const auto at = m.extents.begin() + static_cast<std::ptrdiff_t>(pick(m.extents.size()));
      const Extent e = *at;
      ASSERT_TRUE(ledger_->give_back(*m.client, {e}));
      m.extents.erase(at);
      for (auto f = e.first.value; f < e.end(); ++f) --references[f];
    }
    const auto used = std::count_if(references.begin(), references.end(), [](int r) { return r > 0; });
    if (aim >= kSlabs) {
      while (ledger_->adjust() || ledger_->renew_some(8)) {
      }
      ASSERT_EQ(free_frames() + static_cast<std::uint32_t>(used), arena_->frames()) << "at step " << step;
    } else {
      ASSERT_LE(free_frames() + static_cast<std::uint32_t>(used), arena_->frames()) << "at step " << step;
      wire::StatusReply status;
      ledger_->describe(status);
      ASSERT_EQ(status.lent, used);
      ASSERT_GE(status.present, used);
    }
  }
  ledger_->aim(UINT32_MAX);
  for (auto& m : clients) ledger_->end(*m.client);
  while (ledger_->adjust() || ledger_->renew_some(8)) {
  }
  EXPECT_EQ(free_frames(), arena_->frames());
  EXPECT_EQ(ledger_->load().largest_free, kFramesPerSlab) << "all coalesced";
}

}  // namespace
}  // namespace comex
