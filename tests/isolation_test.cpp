// What one client holds, no other can read, write, free or map, over whichever medium it comes and whoever it is.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <thread>

#include "support/client_process.h"
#include "support/node.h"
#include "support/pages.h"
#include "support/raw_client.h"

namespace comex::test {
namespace {

constexpr std::uint32_t kSlab = 512;

// --- two clients, each over a medium of its own ---

struct Media {
  Over holder;
  Over intruder;
  friend std::ostream& operator<<(std::ostream& out, const Media& media) {
    return out << media.holder << "_against_" << media.intruder;
  }
};

class Isolation : public testing::TestWithParam<Media> {
 protected:
  void SetUp() override { ASSERT_EQ(write(*holder_, held_, pages_), Errc::ok); }
  // Whatever was tried, the holder still has its frames and they are as it left them.
  void TearDown() override {
    Pages now(held_.count);
    ASSERT_EQ(read(*holder_, held_, now), Errc::ok);
    EXPECT_TRUE(now.are(61));
    EXPECT_TRUE(holder_->beat());
  }

  TestNode node_{GetParam().holder == Over::tls || GetParam().intruder == Over::tls ? Over::tls : Over::tcp};
  std::unique_ptr<Link> holder_ = node_.connect(GetParam().holder);
  Extent held_ = granted_extent(*holder_, 8);
  Pages pages_{8, 61};
};

INSTANTIATE_TEST_SUITE_P(Over, Isolation,
                         testing::Values(Media{Over::shm, Over::shm}, Media{Over::shm, Over::tcp},
                                         Media{Over::tcp, Over::shm}, Media{Over::tcp, Over::tcp},
                                         Media{Over::tls, Over::tls}, Media{Over::shm, Over::tls}),
                         testing::PrintToStringParamName());

TEST_P(Isolation, another_client_can_not_touch_them) {
  const auto intruder = node_.connect(GetParam().intruder);
  const Extent own = granted_extent(*intruder, 8);
  Pages stolen(8);
  EXPECT_EQ(read(*intruder, held_, stolen), Errc::denied);
  EXPECT_TRUE(stolen.are_zeros());
  Pages forged(8, 62);
  EXPECT_EQ(write(*intruder, held_, forged), Errc::denied);
  const auto freed = intruder->give_back({&held_, 1});
  ASSERT_FALSE(freed);
  EXPECT_EQ(freed.error().code, Errc::denied);
  // Hidden among its own.
  const std::vector<Extent> mixed{own, held_};
  EXPECT_FALSE(intruder->give_back(mixed));
  const auto reached = intruder->reach({&held_, 1});
  if (GetParam().intruder == Over::shm) {
    ASSERT_FALSE(reached);
    EXPECT_EQ(reached.error().code, Errc::denied);
  }
}

// Every slab of the node is asked for: the node hands out only the intruder's own.
TEST_P(Isolation, another_client_gets_no_descriptor_of_their_slab) {
  RawSession intruder(node_, GetParam().intruder);
  const auto own = intruder.grant(8);
  ASSERT_FALSE(own.empty());
  intruder.control->fds.clear();  // the fence page
  const std::uint32_t own_slab = own[0].first.value / kSlab;
  for (std::uint32_t slab = 0; slab < node_.frames() / kSlab + 2; ++slab) {
    const auto reply = intruder.control->call(wire::Type::map, wire::encode(wire::Map{{slab}}));
    ASSERT_TRUE(reply);
    const bool may = GetParam().intruder == Over::shm && slab == own_slab;
    EXPECT_EQ(reply->status(), may ? Errc::ok : Errc::denied) << "slab " << slab;
    EXPECT_EQ(intruder.control->fds.size(), may ? 1U : 0U) << "slab " << slab;
    intruder.control->fds.clear();
  }
  // One of its own first does not help.
  const auto reply =
      intruder.control->call(wire::Type::map, wire::encode(wire::Map{{own_slab, held_.first.value / kSlab}}));
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->status(), Errc::denied);
  EXPECT_TRUE(intruder.control->fds.empty());
}

// Session ids are small numbers and can be guessed; without the key they open nothing.
TEST_P(Isolation, a_guessed_session_id_opens_nothing) {
  const auto secret = std::as_bytes(std::span(std::string_view(TestNode::kSecret)));
  const wire::SessionKey zeros{};
  RawSession own(node_, GetParam().intruder);
  for (const wire::Purpose purpose : {wire::Purpose::resume, wire::Purpose::lane}) {
    for (const wire::ByteView key :
         {wire::ByteView{}, wire::ByteView(secret), wire::ByteView(zeros), wire::ByteView(own.session.key)}) {
      if (GetParam().intruder == Over::tls) break;  // the same code behind another stream; dial() speaks plain bytes
      auto peer = RawPeer::dial(node_.url(GetParam().intruder));
      const auto answer = shake(peer, hello(purpose, holder_->session().client), key);
      ASSERT_TRUE(answer);
      EXPECT_TRUE(answer->status() == Errc::denied || answer->status() == Errc::invalid) << answer->text();
      EXPECT_TRUE(peer.fds.empty());
      EXPECT_TRUE(peer.closed());
    }
  }
}

// Even with the right key a session does not cross from one medium to the other.
TEST_P(Isolation, a_stolen_key_does_not_cross_media) {
  if (GetParam().holder == GetParam().intruder) GTEST_SKIP() << "one medium";
  auto options = node_.options(GetParam().intruder);
  options.resume = holder_->session();
  const auto link = comex::connect(node_.url(GetParam().intruder), options);
  ASSERT_FALSE(link);
  EXPECT_EQ(link.error().code, Errc::denied);
}

// --- another user ---

class OtherUser : public testing::Test {
 protected:
  static constexpr const char* kNobody = "65534";

  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  }
  static std::unique_ptr<TestNode> open_to_all() {
    auto config = TestNode::config();
    config.socket_mode = 0666;
    auto node = std::make_unique<TestNode>(Over::tcp, config);
    ::chmod(node->folder().path(".").c_str(), 0755);
    return node;
  }
};

TEST_F(OtherUser, can_use_an_open_socket_but_no_frames_of_others) {
  const auto node = open_to_all();
  const auto holder = node->connect(Over::shm);
  const Extent held = granted_extent(*holder, kSlab);
  Pages pages(kSlab, 63);
  ASSERT_EQ(write(*holder, held, pages), Errc::ok);
  auto nobody = start_client(*node, Over::shm, {"--uid", kNobody});
  EXPECT_EQ(parse_extents(nobody.ask("grant 8 3")).size(), 1U);
  EXPECT_EQ(nobody.ask("read " + words(Extent{held.first, 8}) + " 63"), "denied");
  EXPECT_EQ(nobody.ask("write " + words(Extent{held.first, 8}) + " 64"), "denied");
  EXPECT_EQ(nobody.ask("give_back " + words(held)), "denied");
  EXPECT_EQ(nobody.ask("map " + std::to_string(held.first.value / kSlab)), "denied");
  ASSERT_EQ(read(*holder, held, pages), Errc::ok);
  EXPECT_TRUE(pages.are(63));
}

// The key leaked: the node still looks at who is at the other end of the socket.
TEST_F(OtherUser, can_not_join_a_session_even_with_its_key) {
  const auto node = open_to_all();
  const auto holder = node->connect(Over::shm);
  granted(*holder, 8);
  const auto key_line = [](const Session& session) {
    std::string line = "resume " + std::to_string(session.client.value) + " " + std::to_string(session.boot_id) + " ";
    for (const std::byte b : session.key) {
      constexpr std::string_view kDigits = "0123456789abcdef";
      line += kDigits[static_cast<unsigned>(b) >> 4];
      line += kDigits[static_cast<unsigned>(b) & 15];
    }
    return line;
  };
  auto nobody = start_client(*node, Over::shm, {"--uid", kNobody});
  EXPECT_EQ(nobody.ask(key_line(holder->session())), "denied");
  const auto heir = holder->share();
  ASSERT_TRUE(heir);
  EXPECT_EQ(nobody.ask(key_line(*heir)), "denied");
  // The line itself is right: the same user can. (Which ends with its connection, as the Unix socket has it.)
  auto same_user = start_client(*node, Over::shm);
  EXPECT_EQ(same_user.ask(key_line(*heir)), "ok");
}

TEST_F(OtherUser, is_kept_out_by_the_permissions_of_the_socket) {
  TestNode node;
  ::chmod(node.folder().path(".").c_str(), 0755);
  Process nobody({TEST_CLIENT, node.url(Over::shm).text(), "--uid", kNobody}, node.folder().path("."));
  EXPECT_EQ(nobody.read_line(), "denied");
  EXPECT_EQ(nobody.wait(), 1);
}

// --- descriptors that are kept ---

// A client's mapping of a slab, kept past the end of its session.
class Zombie {
 public:
  // Takes a whole slab and fills it.
  explicit Zombie(const TestNode& node) : session(node, Over::shm) {
    slab = session.grant(kSlab, 9).at(0);
    const auto reply = session.control->call(wire::Type::map, wire::encode(wire::Map{{slab.first.value / kSlab}}));
    EXPECT_TRUE(reply && reply->status() == Errc::ok && session.control->fds.size() == 2);
    void* at =
        mmap(nullptr, kSlab * kPageSize, PROT_READ | PROT_WRITE, MAP_SHARED, session.control->fds.at(1).get(), 0);
    EXPECT_NE(at, MAP_FAILED);
    memory = static_cast<std::byte*>(at);
    for (std::uint32_t i = 0; i < kSlab; ++i) fill_page(memory + i * kPageSize, 65, i);
  }
  Zombie(const Zombie&) = delete;
  Zombie& operator=(const Zombie&) = delete;
  ~Zombie() { munmap(memory, kSlab * kPageSize); }

  // What it scribbled while the memory was replaced is its own as well: it may begin in the middle of a page.
  [[nodiscard]] bool sees_only_its_own_or_zeros() const {
    for (std::uint32_t i = 0; i < kSlab; ++i) {
      const std::span page(memory + i * kPageSize, kPageSize);
      const auto harmless = [](std::byte byte) { return byte == std::byte{0} || byte == kScribble; };
      if (!page_is(page.data(), 65, i) && !std::ranges::all_of(page, harmless)) return false;
    }
    return true;
  }
  void scribble() const { std::memset(memory, static_cast<int>(kScribble), kSlab * kPageSize); }

  static constexpr std::byte kScribble{0xee};
  RawSession session;
  Extent slab;
  std::byte* memory = nullptr;
};

// Takes every frame of the node, sees zeros, fills them; the zombie scribbles all the while, and looks.
void expect_apart(const TestNode& node, const Zombie& zombie, Over over) {
  const auto owner = node.connect(over);
  std::jthread meanwhile([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) zombie.scribble();
  });
  auto extents = granted(*owner, node.frames(), 9);
  Pages pages(kSlab);
  for (const auto& extent : extents) {
    ASSERT_EQ(read(*owner, extent, pages), Errc::ok);
    ASSERT_TRUE(pages.are_zeros()) << "frames from " << extent.first.value;
    pages.fill(extent.first.value + 1000);
    ASSERT_EQ(write(*owner, extent, pages), Errc::ok);
  }
  meanwhile = {};  // stops and joins
  EXPECT_TRUE(zombie.sees_only_its_own_or_zeros());
  zombie.scribble();
  for (const auto& extent : extents) {
    ASSERT_EQ(read(*owner, extent, pages), Errc::ok);
    EXPECT_TRUE(pages.are(extent.first.value + 1000)) << "frames from " << extent.first.value;
  }
  owner->bye();
}

class KeptDescriptor : public testing::TestWithParam<Over> {};

INSTANTIATE_TEST_SUITE_P(Over, KeptDescriptor, testing::Values(Over::shm, Over::tcp),
                         testing::PrintToStringParamName());

TEST_P(KeptDescriptor, is_worth_nothing_after_bye) {
  TestNode node;
  Zombie zombie(node);
  ASSERT_TRUE(zombie.session.control->call(wire::Type::bye));
  zombie.scribble();  // before the memory is replaced
  expect_apart(node, zombie, GetParam());
}

TEST_P(KeptDescriptor, is_worth_nothing_after_the_connection_ended) {
  TestNode node;
  Zombie zombie(node);
  zombie.session.control->stream().shut();
  ASSERT_TRUE(wait_until([&] { return node.clients() == 0; }));
  zombie.scribble();
  expect_apart(node, zombie, GetParam());
}

TEST_P(KeptDescriptor, is_worth_nothing_after_the_frames_were_returned) {
  TestNode node;
  Zombie zombie(node);
  ASSERT_EQ(zombie.session.give_back({&zombie.slab, 1}), Errc::ok);
  zombie.scribble();
  expect_apart(node, zombie, GetParam());
  // Nor does asking again help: it holds nothing there.
  const auto reply =
      zombie.session.control->call(wire::Type::map, wire::encode(wire::Map{{zombie.slab.first.value / kSlab}}));
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->status(), Errc::denied);
}

TEST_P(KeptDescriptor, is_worth_nothing_after_the_lease) {
  auto config = TestNode::config();
  config.lease = Millis(300);
  TestNode node(Over::tcp, config);
  Zombie zombie(node);
  ASSERT_TRUE(wait_until([&] { return node.clients() == 0; }));
  zombie.scribble();
  ASSERT_TRUE(node.all_free_soon());
  // A lease this short is for the zombie; the new owner's work must not depend on how fast this machine is.
  const auto again = node.connect(GetParam());
  const auto slab = granted_extent(*again, kSlab);
  Pages pages(kSlab);
  ASSERT_EQ(read(*again, slab, pages), Errc::ok);
  EXPECT_TRUE(pages.are_zeros());
}

// A client may do to its own slab what it likes: the node neither dies nor hands the damage on.
TEST(SlabDescriptor, a_client_can_not_harm_the_node_through_it) {
  TestNode node;
  Zombie zombie(node);
  const int fd = zombie.session.control->fds.at(1).get();
  EXPECT_NE(ftruncate(fd, 0), 0);
  EXPECT_NE(ftruncate(fd, 1 << 30), 0);
  EXPECT_NE(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), 0);
  EXPECT_NE(fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE), 0);
  ASSERT_EQ(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, kSlab * kPageSize), 0);
  // Part of the punched slab changes hands within the session, which makes the node look at it again.
  const Extent half{zombie.slab.first, kSlab / 2};
  EXPECT_EQ(zombie.session.give_back({&half, 1}), Errc::ok);
  EXPECT_FALSE(zombie.session.grant(kSlab / 2, 8).empty());
  ASSERT_TRUE(zombie.session.control->call(wire::Type::bye));
  expect_apart(node, zombie, Over::tcp);
}

// The word in the fence page is the node's: a client can neither write it nor take it away from under the node.
TEST(FencePage, a_client_can_not_change_it) {
  TestNode node;
  RawSession session(node, Over::shm);
  ASSERT_EQ(session.control->fds.size(), 1U);
  const int fd = session.control->fds[0].get();
  EXPECT_EQ(mmap(nullptr, kPageSize, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
  const std::uint32_t one = 1;
  EXPECT_LT(pwrite(fd, &one, sizeof one, 0), 0);
  EXPECT_NE(ftruncate(fd, 0), 0);
  EXPECT_NE(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, kPageSize), 0);
  void* page = mmap(nullptr, kPageSize, PROT_READ, MAP_SHARED, fd, 0);
  ASSERT_NE(page, MAP_FAILED);
  EXPECT_NE(mprotect(page, kPageSize, PROT_READ | PROT_WRITE), 0);
  EXPECT_EQ(*static_cast<const std::uint32_t*>(page), 0U);
  ASSERT_TRUE(session.control->call(wire::Type::bye));
  EXPECT_EQ(*static_cast<const std::uint32_t*>(page), 1U);
  munmap(page, kPageSize);
}

}  // namespace
}  // namespace comex::test
