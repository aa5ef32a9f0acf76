#include "base/host_id.h"

#include <unistd.h>

#include <array>
#include <fstream>
#include <string>

namespace comex {

std::uint16_t nid_of(std::string_view machine_id) {
  // FNV-1a, its 64 bits folded to 16.
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : machine_id) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001b3;
  }
  hash ^= hash >> 32;
  hash ^= hash >> 16;
  const auto nid = static_cast<std::uint16_t>(hash);
  return nid == 0 ? 1 : nid;
}

std::uint16_t default_host_nid() {
  std::string id;
  if (std::ifstream file("/etc/machine-id"); std::getline(file, id) && !id.empty()) return nid_of(id);

  // Containers often have no machine id, or an empty one.
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return 1;
  return nid_of(name.data());
}

}  // namespace comex
