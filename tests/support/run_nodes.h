// A program under `comex run` whose pages are on several memory nodes, processes of their own, which are killed,
// stopped and replaced.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <string>
#include <vector>

#include "cli/test_folder.h"
#include "support/own_address.h"
#include "support/process.h"

namespace comex::test {

class RunNodes : public testing::Test {
 protected:
  // `memory`: of each node. `keeping`: what `comex run` is told of how to keep pages.
  RunNodes(std::string memory, std::vector<std::string> keeping)
      : memory_(std::move(memory)), keeping_(std::move(keeping)) {}

  // With a lease that no busy machine exceeds.
  void add_node(const std::string& listen = own_listen());
  void add_nodes(int count) {
    for (int i = 0; i < count; ++i) add_node();
  }
  // Another takes its place, which knows nothing.
  void kill_and_replace(std::size_t node);
  [[nodiscard]] std::string urls() const;

  Process start(const std::vector<std::string>& program, const std::vector<std::string>& flags = {});
  // One that fills 48 MiB, says so, and then looks at them (support/toucher.h).
  Process touch(const std::vector<std::string>& flags = {});
  // What it answers at the end: nothing was wrong. The pause is 2 s at most where nobody else wants the machine; here
  // others may.
  static void expect_right(const std::string& answer);
  static bool says(const Process& process, const std::string& what);

  TestFolder folder_;
  std::deque<NodeProcess> nodes_;

 private:
  const std::string memory_;
  const std::vector<std::string> keeping_;
};

}  // namespace comex::test
