#include "fabric/url.h"

#include <gtest/gtest.h>

namespace comex {
namespace {

TEST(Url, parse_kinds) {
  const auto tcp = parse_url("tcp://10.0.0.5:9000");
  ASSERT_TRUE(tcp);
  EXPECT_EQ(tcp->scheme, Url::Scheme::tcp);
  EXPECT_EQ(tcp->host, "10.0.0.5");
  EXPECT_EQ(tcp->port, 9000);
  const auto tls = parse_url("tls://node.example");
  ASSERT_TRUE(tls);
  EXPECT_EQ(tls->scheme, Url::Scheme::tls);
  EXPECT_EQ(tls->port, kDefaultPort);
  const auto local = parse_url("unix:///run/comex/comex.sock");
  ASSERT_TRUE(local);
  EXPECT_EQ(local->path, "/run/comex/comex.sock");
  const auto v6 = parse_url("tcp://[::1]:7");
  ASSERT_TRUE(v6);
  EXPECT_EQ(v6->host, "::1");
}

TEST(Url, text_parses_back) {
  for (const char* text :
       {"tcp://a:1", "rdma://a:1", "rdma://a:1?domain=r&device=mlx5_0&port=2&gid=3&tos=96", "tls://[fe80::1]:7171",
        "unix:///x", "unix://@x", "tcp://a:1?domain=rack 1", "unix:///x?domain=y"}) {
    const auto url = parse_url(text);
    ASSERT_TRUE(url) << text;
    EXPECT_EQ(url->text(), text);
  }
}

TEST(Url, wrong_ones_say_what_to_write) {
  for (const char* text : {"",
                           "tcp://",
                           "tcp://:1",
                           "tcp://h:0",
                           "tcp://h:99999",
                           "tcp://h:1x",
                           "unix://relative",
                           "http://h:1",
                           "10.0.0.5:7171",
                           "tcp://[::1:7171",
                           "tcp://::1:7171",
                           "tcp://[[]]",
                           "tcp://h]:1",
                           "tcp://h:1?domain=",
                           "tcp://h:1?",
                           "tcp://h:1?device=rxe0",
                           "rdma://h:1?port=2",
                           "rdma://h:1?gid=x",
                           "rdma://h:1?gid=256",
                           "rdma://h:1?what=1"}) {
    const auto url = parse_url(text);
    ASSERT_FALSE(url) << text;
    EXPECT_EQ(url.error().code, Errc::invalid) << text;
    EXPECT_NE(url.error().message.find("tcp://HOST:7171"), std::string::npos) << text;
  }
}

TEST(Url, list) {
  const auto urls = parse_urls("tcp://a:1,unix:///b,");
  ASSERT_TRUE(urls);
  EXPECT_EQ(urls->size(), 2U);
  EXPECT_FALSE(parse_urls("tcp://a:1,nonsense"));
  EXPECT_TRUE(parse_urls("")->empty());
}

}  // namespace
}  // namespace comex
