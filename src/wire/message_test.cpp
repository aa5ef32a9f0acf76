#include "wire/message.h"

#include <gtest/gtest.h>

namespace comex::wire {
namespace {

std::array<std::byte, Header::kBytes> raw(const Header& header) {
  std::array<std::byte, Header::kBytes> bytes;
  std::memcpy(bytes.data(), &header, sizeof header);
  return bytes;
}

TEST(Message, hello_round_trip) {
  Hello hello;
  hello.purpose = Purpose::resume;
  hello.nid = NodeId{300};
  hello.pid = 42;
  hello.client = ClientId{77};
  hello.nonce.fill(std::byte{9});
  hello.name = "python3";
  const auto back = decode<Hello>(encode(hello));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->purpose, Purpose::resume);
  EXPECT_EQ(back->nid, NodeId{300});
  EXPECT_EQ(back->pid, 42U);
  EXPECT_EQ(back->client, ClientId{77});
  EXPECT_EQ(back->nonce, hello.nonce);
  EXPECT_EQ(back->name, "python3");
}

TEST(Message, hello_wrong_magic_purpose_or_versions) {
  const Hello hello;
  for (const std::size_t at : {0, 8}) {  // the magic, the purpose
    Bytes bytes = encode(hello);
    bytes[at] = std::byte{0xee};
    EXPECT_FALSE(decode<Hello>(bytes)) << at;
  }
  Hello backwards;
  backwards.version_min = 2;
  backwards.version_max = 1;
  EXPECT_FALSE(decode<Hello>(encode(backwards)));
}

TEST(Message, every_truncation_is_refused) {
  StatusReply status;
  status.clients.push_back({ClientId{1}, "a", "b", 2, 3, 4});
  const std::vector<Bytes> messages = {encode(Hello{}), encode(GrantReply{{Extent{FrameNo{1}, 2}}, {}}),
                                       encode(GiveBack{{Extent{FrameNo{1}, 2}}}), encode(status)};
  for (std::size_t cut = 0; cut < messages[0].size(); ++cut)
    EXPECT_FALSE(decode<Hello>(ByteView(messages[0]).first(cut)));
  for (std::size_t cut = 0; cut < messages[1].size(); ++cut) {
    EXPECT_FALSE(decode<GrantReply>(ByteView(messages[1]).first(cut)));
  }
  for (std::size_t cut = 0; cut < messages[2].size(); ++cut) {
    EXPECT_FALSE(decode<GiveBack>(ByteView(messages[2]).first(cut)));
  }
  for (std::size_t cut = 0; cut < messages[3].size(); ++cut) {
    EXPECT_FALSE(decode<StatusReply>(ByteView(messages[3]).first(cut)));
  }
}

TEST(Message, asked_and_lend_round_trip) {
  const AskedReply asked{{1, 7, 4'000'000}};
  const Bytes bytes = encode(asked);
  EXPECT_EQ(decode<AskedReply>(bytes)->slabs, asked.slabs);
  EXPECT_TRUE(decode<AskedReply>(encode(AskedReply{}))->slabs.empty());
  for (std::size_t cut = 0; cut < bytes.size(); ++cut) EXPECT_FALSE(decode<AskedReply>(ByteView(bytes).first(cut)));
  EXPECT_EQ(decode<AskedReply>(encode(AskedReply{std::vector<std::uint32_t>(kMaxAsked + 1)}))->slabs.size(), kMaxAsked);
  EXPECT_EQ(decode<Lend>(encode(Lend{12}))->frames, 12U);
  EXPECT_FALSE(decode<Lend>(Bytes(3)));
}

TEST(Message, status_round_trip) {
  StatusReply status;
  status.nid = NodeId{5};
  status.frames = 1024;
  status.goal = 512;
  status.present = 1000;
  status.lent = 900;
  status.load = {1, 2, 3, 4, 5};
  status.clients.push_back({ClientId{9}, "redis", "10.0.0.1:5", 2, 3, 4});
  status.client_count = 1;
  const auto back = decode<StatusReply>(encode(status));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->goal, 512U);
  EXPECT_EQ(back->present, 1000U);
  EXPECT_EQ(back->lent, 900U);
  EXPECT_EQ(back->load.service_ns, 4U);
  EXPECT_EQ(back->load.asked, 5U);
  ASSERT_EQ(back->clients.size(), 1U);
  EXPECT_EQ(back->clients[0].peer, "10.0.0.1:5");
}

// To those who speak an older version, without what that does not have.
TEST(Message, status_of_either_version) {
  StatusReply status;
  status.clients.push_back({ClientId{1}, "a", "b", 2, 3, 4});
  const Bytes old = encode(status);
  EXPECT_FALSE(decode<StatusReply>(old)->pages_pulled);
  status.pages_pulled = 12;
  const Bytes now = encode(status);
  EXPECT_EQ(decode<StatusReply>(now)->pages_pulled, 12U);
  EXPECT_EQ(now.size(), old.size() + 8);
  for (std::size_t size = old.size() + 1; size < now.size(); ++size) {
    EXPECT_FALSE(decode<StatusReply>(ByteView(now).first(size)));
  }
}

Pull a_pull() {
  Pull pull;
  pull.from.ip.fill(std::byte{7});
  pull.from.port = 7171;
  pull.boot_id = 99;
  pull.ticket.number = 5;
  pull.ticket.nonce.fill(std::byte{1});
  pull.covered_key.fill(std::byte{2});
  pull.source = {Extent{FrameNo{64}, 60}, Extent{FrameNo{200}, 4}};
  pull.target = {Extent{FrameNo{0}, 64}};
  return pull;
}

TEST(Message, tickets_and_pulls_round_trip) {
  EXPECT_EQ(decode<Ticket>(encode(Ticket{{Extent{FrameNo{3}, 4}}}))->extents, (std::vector{Extent{FrameNo{3}, 4}}));
  const Pull pull = a_pull();
  const Bytes bytes = encode(pull);
  const auto back = decode<Pull>(bytes);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->from, pull.from);
  EXPECT_EQ(back->boot_id, 99U);
  EXPECT_EQ(back->ticket.number, 5U);
  EXPECT_EQ(back->ticket.nonce, pull.ticket.nonce);
  EXPECT_EQ(back->covered_key, pull.covered_key);
  EXPECT_EQ(back->source, pull.source);
  EXPECT_EQ(back->target, pull.target);
  for (std::size_t cut = 0; cut < bytes.size(); ++cut) EXPECT_FALSE(decode<Pull>(ByteView(bytes).first(cut)));
  EXPECT_EQ(decode<PulledReply>(encode(PulledReply{PullState::failed}))->state, PullState::failed);
  EXPECT_FALSE(decode<PulledReply>(Bytes(1, std::byte{3})));
}

TEST(Message, tickets_and_pulls_have_the_limits_of_a_read) {
  EXPECT_FALSE(decode<Ticket>(encode(Ticket{})));
  EXPECT_FALSE(decode<Ticket>(encode(Ticket{{Extent{FrameNo{0}, kMaxTransferPages + 1}}})));
  EXPECT_FALSE(decode<Ticket>(encode(Ticket{{Extent{FrameNo{0}, 0}}})));
  EXPECT_FALSE(decode<Ticket>(encode(Ticket{std::vector<Extent>(kMaxSegments + 1, Extent{FrameNo{0}, 1})})));
  Pull uneven = a_pull();
  uneven.target[0].count = 63;
  EXPECT_FALSE(decode<Pull>(encode(uneven)));
  Pull much = a_pull();
  much.source = much.target = {Extent{FrameNo{0}, kMaxTransferPages}, Extent{FrameNo{0}, 1}};
  EXPECT_FALSE(decode<Pull>(encode(much)));
}

TEST(Message, keys_of_slabs_round_trip) {
  const MapReply keys{{SlabKey{0x7fff00000000, 0xdeadbeef}, SlabKey{4096, 1}}};
  const auto back = decode<MapReply>(encode(keys));
  ASSERT_TRUE(back);
  ASSERT_EQ(back->keys.size(), 2U);
  EXPECT_EQ(back->keys[0].address, 0x7fff00000000U);
  EXPECT_EQ(back->keys[0].key, 0xdeadbeefU);
  EXPECT_EQ(back->keys[1].key, 1U);
  EXPECT_FALSE(decode<MapReply>(encode(MapReply{})));
  EXPECT_FALSE(decode<MapReply>(encode(MapReply{std::vector<SlabKey>(kMaxSlabsPerMap + 1)})));
}

TEST(Message, extents_empty_wrapping_or_too_many_are_refused) {
  EXPECT_FALSE(decode<GiveBack>(encode(GiveBack{})));
  EXPECT_FALSE(decode<GiveBack>(encode(GiveBack{{Extent{FrameNo{5}, 0}}})));
  EXPECT_FALSE(decode<GiveBack>(encode(GiveBack{{Extent{FrameNo{0xffffffff}, 2}}})));
  EXPECT_TRUE(decode<GiveBack>(encode(GiveBack{{Extent{FrameNo{0xffffffff}, 1}}})));
  const std::vector<Extent> many(kMaxExtents + 1, Extent{FrameNo{0}, 1});
  EXPECT_FALSE(decode<GiveBack>(encode(GiveBack{many})));
}

TEST(Message, segments_limits) {
  std::array<Extent, kMaxSegments> out;
  const auto segments = [](std::initializer_list<Extent> extents) {
    Writer w;
    for (const auto& e : extents) w.put(e.first.value).put(e.count);
    return w.take();
  };
  EXPECT_EQ(decode_segments(segments({{FrameNo{1}, kMaxTransferPages}}), out), 1U);
  EXPECT_FALSE(decode_segments(segments({{FrameNo{1}, kMaxTransferPages}, {FrameNo{1}, 1}}), out));
  EXPECT_FALSE(decode_segments(segments({{FrameNo{1}, 0xffffffff}}), out));
  EXPECT_FALSE(decode_segments(segments({}), out));
  EXPECT_FALSE(decode_segments(Bytes(7), out));
  EXPECT_FALSE(decode_segments(Bytes((kMaxSegments + 1) * 8, std::byte{1}), out));
}

TEST(Message, header_limits) {
  Header header;
  header.type = static_cast<std::uint16_t>(Type::write);
  header.payload = kPageSize;
  EXPECT_TRUE(decode_header(raw(header)));
  header.payload = kPageSize + 1;
  EXPECT_FALSE(decode_header(raw(header))) << "not whole pages";
  header.payload = (kMaxTransferPages + 1) * kPageSize;
  EXPECT_FALSE(decode_header(raw(header)));
  header.payload = kPageSize;
  header.type = static_cast<std::uint16_t>(Type::grant);
  EXPECT_FALSE(decode_header(raw(header))) << "only reads and writes carry pages";
  header.payload = 0;
  header.body = kMaxBody + 1;
  EXPECT_FALSE(decode_header(raw(header)));
  header.body = 0;
  header.type = 0;
  EXPECT_FALSE(decode_header(raw(header)));
  header.type = 99;
  EXPECT_FALSE(decode_header(raw(header)));
}

}  // namespace
}  // namespace comex::wire
