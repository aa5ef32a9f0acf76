#include "support/run_nodes.h"

#include <cstdio>

#include "support/toucher.h"
#include "support/wait.h"

namespace comex::test {

void RunNodes::add_node(const std::string& listen) {
  const std::string number = std::to_string(nodes_.size() + 1);
  nodes_.push_back(start_node({"--listen", listen, "--lease", "60s", "--nid", number, "--socket", "none"},
                              folder_.path("."), memory_));
}

void RunNodes::kill_and_replace(std::size_t node) {
  const std::string listen = nodes_[node].tcp->host + ":" + std::to_string(nodes_[node].tcp->port);
  nodes_[node].process.kill();
  add_node(listen);
}

std::string RunNodes::urls() const {
  std::string all;
  for (const auto& node : nodes_) all += (all.empty() ? "" : ",") + node.tcp->text();
  return all;
}

Process RunNodes::start(const std::vector<std::string>& program, const std::vector<std::string>& flags) {
  std::vector<std::string> words{COMEX_BINARY, "run", "--at-once", "--local", "16M", "--pool", urls()};
  words.insert(words.end(), keeping_.begin(), keeping_.end());
  words.insert(words.end(), flags.begin(), flags.end());
  words.emplace_back("--");
  words.insert(words.end(), program.begin(), program.end());
  return Process(words, folder_.path("."));
}

Process RunNodes::touch(const std::vector<std::string>& flags) {
  return start({"/usr/bin/python3", folder_.file("toucher.py", kToucher), "48"}, flags);
}

void RunNodes::expect_right(const std::string& answer) {
  int wrong = -1;
  int longest = -1;
  ASSERT_EQ(std::sscanf(answer.c_str(), "wrong %d longest %d", &wrong, &longest), 2) << answer;
  EXPECT_EQ(wrong, 0);
  EXPECT_LT(longest, 5000) << "2 s, and what the tests beside this one take of two cores: BenchKeep holds to 2 s";
}

bool RunNodes::says(const Process& process, const std::string& what) {
  return wait_until([&] { return process.errors().find(what) != std::string::npos; });
}

}  // namespace comex::test
