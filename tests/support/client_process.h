// A client in a process of its own (tests/client/main.cpp).
#pragma once

#include <string>
#include <vector>

#include "support/node.h"
#include "support/process.h"

namespace comex::test {

// Started and connected, or the test fails and throws.
Process start_client(const TestNode& node, Over over, std::vector<std::string> flags = {});

// The extents in an answer to "grant".
std::vector<Extent> parse_extents(const std::string& answer);
// "FIRST COUNT", as commands take it.
std::string words(const Extent& extent);

}  // namespace comex::test
