// What `comex run` sees of a pool before a program begins (run/launch/glance.h).
#include "run/launch/glance.h"

#include <gtest/gtest.h>

#include "fabric/socket.h"
#include "support/node.h"
#include "support/wait.h"

namespace comex::test {
namespace {

PoolConfig pool_of(const TestNode& node, Over over) {
  PoolConfig pool;
  pool.nodes = {node.url(over)};
  pool.link = node.options(over);
  return pool;
}

// A glance is short: a machine that is busy may take several.
bool seen(const PoolConfig& pool) {
  return wait_until([&] { return seen_at_a_glance(pool); });
}

TEST(Glance, sees_a_node_that_lends) {
  const TestNode node;
  EXPECT_TRUE(seen(pool_of(node, Over::tcp)));
  EXPECT_TRUE(seen(pool_of(node, Over::shm)));
  EXPECT_EQ(node.clients(), 0U) << "nobody has come in";
}

TEST(Glance, is_not_enough_for_tls) {
  const TestNode node(Over::tls);
  EXPECT_FALSE(seen_at_a_glance(pool_of(node, Over::tls)));
}

TEST(Glance, knows_names_that_are_on_file_only) {
  const TestNode node;
  PoolConfig pool = pool_of(node, Over::tcp);
  pool.nodes.front().host = "localhost";
  EXPECT_TRUE(seen(pool));
  pool.nodes.front().host = "nowhere.invalid";
  EXPECT_FALSE(seen_at_a_glance(pool));
}

TEST(Glance, does_not_take_a_node_with_another_secret) {
  const TestNode node;
  PoolConfig pool = pool_of(node, Over::tcp);
  pool.link.secret += "r";
  EXPECT_FALSE(seen_at_a_glance(pool));
}

TEST(Glance, does_not_take_a_node_that_has_lent_nearly_all) {
  const TestNode node;
  const auto greedy = node.connect(Over::shm);
  const auto most = granted(*greedy, node.free_frames() - 512);
  EXPECT_FALSE(seen_at_a_glance(pool_of(node, Over::tcp)));
}

TEST(Glance, wants_as_many_nodes_as_copies_that_do_not_fail_together) {
  const TestNode one;
  const TestNode two;
  PoolConfig pool = pool_of(one, Over::tcp);
  pool.copies = 2;
  EXPECT_FALSE(seen_at_a_glance(pool));
  pool.nodes.push_back(two.url(Over::tcp));
  EXPECT_TRUE(seen(pool));
  for (Url& url : pool.nodes) url.domain = "rack";
  EXPECT_FALSE(seen_at_a_glance(pool));
}

TEST(Glance, counts_a_node_with_two_urls_once) {
  const TestNode node;
  PoolConfig pool = pool_of(node, Over::tcp);
  pool.nodes.push_back(node.url(Over::shm));
  EXPECT_TRUE(seen(pool));
  pool.copies = 2;
  EXPECT_FALSE(seen_at_a_glance(pool));
}

TEST(Glance, does_not_wait_long_for_one_that_does_not_answer) {
  const auto silent = listen_tcp("127.0.0.1:0");
  ASSERT_TRUE(silent);
  const TestNode node;
  PoolConfig pool = pool_of(node, Over::tcp);
  pool.nodes.insert(pool.nodes.begin(), *parse_url("tcp://127.0.0.1:" + std::to_string(silent->port)));
  EXPECT_TRUE(seen(pool)) << "another is enough";
  pool.nodes.pop_back();
  EXPECT_FALSE(seen_at_a_glance(pool));
}

}  // namespace
}  // namespace comex::test
