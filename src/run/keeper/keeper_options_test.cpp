#include "run/keeper/keeper_options.h"

#include <gtest/gtest.h>

namespace comex {
namespace {

KeeperOptions some_options() {
  KeeperOptions options;
  options.pool.nodes = *parse_urls("tcp://10.0.0.5:7171?domain=rack,unix:///run/comex/node");
  options.pool.link.secret = std::string("\xff\0\x80 bytes", 9);
  options.pool.link.tls = TlsClientConfig{"ca.pem", "cert.pem", "key.pem"};
  options.pool.link.nid = NodeId{77};
  options.pool.link.name = "sort";
  options.local = std::uint64_t{3} << 40;
  options.own_memory = 5;
  options.stock = 256;
  options.pool.copies = 3;
  options.code = {4, 2};
  options.program = "na\xefve";
  options.command = "na\xefve --all";
  options.log = "debug";
  options.summary = true;
  return options;
}

TEST(KeeperOptions, come_through_as_they_were) {
  const KeeperOptions told = some_options();
  const auto heard = keeper_options_from(to_bytes(told));
  ASSERT_TRUE(heard) << heard.error().message;
  EXPECT_EQ(heard->pool.nodes, told.pool.nodes);
  EXPECT_EQ(heard->pool.link.secret, told.pool.link.secret);
  EXPECT_EQ(heard->pool.link.tls.ca, "ca.pem");
  EXPECT_EQ(heard->pool.link.tls.certificate, "cert.pem");
  EXPECT_EQ(heard->pool.link.tls.key, "key.pem");
  EXPECT_EQ(heard->pool.link.nid, told.pool.link.nid);
  EXPECT_EQ(heard->pool.link.name, "sort");
  EXPECT_EQ(heard->local, told.local);
  EXPECT_EQ(heard->own_memory, told.own_memory);
  EXPECT_EQ(heard->stock, 256U);
  EXPECT_EQ(heard->pool.copies, 3U);
  EXPECT_EQ(heard->code, told.code);
  EXPECT_EQ(heard->program, told.program);
  EXPECT_EQ(heard->command, told.command);
  EXPECT_EQ(heard->log, "debug");
  EXPECT_TRUE(heard->summary);
}

TEST(KeeperOptions, what_is_cut_off_is_refused) {
  const std::string bytes = to_bytes(some_options());
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_FALSE(keeper_options_from(bytes.substr(0, length))) << length;
  }
}

TEST(KeeperReport, says_why) {
  const KeeperReport heard = keeper_report_from(to_bytes(KeeperReport{Errc::no_memory, "the pool is full"}));
  EXPECT_EQ(heard.code, Errc::no_memory);
  EXPECT_EQ(heard.text, "the pool is full");
  EXPECT_EQ(keeper_report_from(to_bytes(KeeperReport{})).code, Errc::ok);
  EXPECT_EQ(keeper_report_from("").code, Errc::io) << "it is gone";
}

}  // namespace
}  // namespace comex
