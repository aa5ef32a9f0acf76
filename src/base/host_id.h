// The NID a host has unless it is given one: its machine id, hashed to 16 bits, never 0.
//
// Two hosts may hash to the same NID (in a pool of 30 the chance is about 1 in 150), and two nodes on one host always
// do: give them one each with --nid.
//
// Thread-safe.
#pragma once

#include <cstdint>
#include <string_view>

namespace comex {

// From the machine id, or the host's name where there is none.
std::uint16_t default_host_nid();

// The hash behind it. Nodes remember each other by it, so it must not change between versions.
std::uint16_t nid_of(std::string_view machine_id);

}  // namespace comex
