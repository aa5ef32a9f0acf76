// Names of machines that are in a file (hosts(5)): for those who have no time to ask a server, or no resolver.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace comex {

// The addresses, in numbers, that `hosts`, the text of such a file, has for the name; in its order.
std::vector<std::string> addresses_in(std::string_view hosts, std::string_view name);

}  // namespace comex
