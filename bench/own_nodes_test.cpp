#include "bench/own_nodes.h"

#include <gtest/gtest.h>

namespace comex::bench {
namespace {

TEST(OwnNodes, parseReadyLine_findsBothUrls) {
  const auto found = parse_ready_line(
      "comex: lending 512.00 MiB as node 7 on tcp://127.0.0.1:43211 and unix:///tmp/x/node.sock (huge pages: no)");
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->tcp.text(), "tcp://127.0.0.1:43211");
  EXPECT_EQ(found->shm.text(), "unix:///tmp/x/node.sock");
}

TEST(OwnNodes, parseReadyLine_anythingElseIsShown) {
  const auto found = parse_ready_line("comex: not enough memory");
  ASSERT_FALSE(found);
  EXPECT_NE(found.error().message.find("not enough memory"), std::string::npos);
}

}  // namespace
}  // namespace comex::bench
