// Which nodes fail together: those whose URLs name the same domain (fabric/url.h).
// Thread safety: pure functions.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "fabric/url.h"

namespace comex {

inline std::string domain_of(const Url& url) {
  return url.domain.empty() ? "node " + url.text() : url.domain;
}

inline std::size_t count_domains(const std::vector<Url>& nodes) {
  std::set<std::string> domains;
  for (const Url& url : nodes) domains.insert(domain_of(url));
  return domains.size();
}

}  // namespace comex
