// Addresses as they travel in messages (wire::Address): numbers, never names, so that whoever connects to one asks no
// name server. Thread-safe.
#pragma once

#include <optional>
#include <string>

#include "wire/message.h"

namespace comex {

// Of the other end of a TCP socket. Nothing if it is none, or of a kind that has a meaning on this machine alone.
std::optional<wire::Address> peer_address(int socket);
// "10.0.0.5", "fe80::1": what connect_tcp() understands.
std::string host_of(const wire::Address& address);
// Only this machine can reach it. So can "any" address, which connects to this machine.
bool is_loopback(const wire::Address& address);

}  // namespace comex
