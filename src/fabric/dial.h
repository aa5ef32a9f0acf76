// Connecting to an address that is a number or a path: nobody is asked for it, and no library is needed for that.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <cstdint>
#include <string>

#include "base/clock.h"
#include "base/expected.h"
#include "base/fd.h"

namespace comex {

// The message of an error says what went wrong, and not where.
Expected<Fd> dial(const sockaddr& address, socklen_t size, const Deadline& deadline);
// "10.0.0.5" or "fe80::1". Errc::invalid: a name.
Expected<Fd> dial_number(const std::string& host, std::uint16_t port, const Deadline& deadline);

// "@name" is a socket that is not in the file system and goes with the last descriptor of it.
Expected<sockaddr_un> unix_address(const std::string& path);
Expected<Fd> connect_unix(const std::string& path);

}  // namespace comex
