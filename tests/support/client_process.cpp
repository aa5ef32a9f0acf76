#include "support/client_process.h"

#include <gtest/gtest.h>

#include <sstream>
#include <stdexcept>

namespace comex::test {

Process start_client(const TestNode& node, Over over, std::vector<std::string> flags) {
  std::vector<std::string> arguments{TEST_CLIENT, node.url(over).text()};
  const auto options = node.options(over);
  if (!options.secret.empty()) arguments.insert(arguments.end(), {"--secret", options.secret});
  if (!options.tls.ca.empty()) arguments.insert(arguments.end(), {"--ca", options.tls.ca});
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  Process client(arguments, node.folder().path("."));
  const auto joined = client.read_line();
  if (joined != "ok") {
    ADD_FAILURE() << "a client process cannot come in: " << joined.value_or("no answer") << client.errors();
    throw std::runtime_error("no client");
  }
  return client;
}

std::vector<Extent> parse_extents(const std::string& answer) {
  std::vector<Extent> extents;
  std::istringstream stream(answer);
  std::string word;
  stream >> word;
  if (word != "ok") return extents;
  while (stream >> word) {
    const auto plus = word.find('+');
    extents.push_back(Extent{FrameNo{static_cast<std::uint32_t>(std::stoul(word.substr(0, plus)))},
                             static_cast<std::uint32_t>(std::stoul(word.substr(plus + 1)))});
  }
  return extents;
}

std::string words(const Extent& extent) {
  return std::to_string(extent.first.value) + " " + std::to_string(extent.count);
}

}  // namespace comex::test
