// Tells systemd how a service is doing, as sd_notify(3) describes it: a datagram to the socket in $NOTIFY_SOCKET. Our
// own few lines, because libsystemd brings six libraries along, which every `comex run` would load.
#pragma once

#include <string_view>

namespace comex {

// Lines of NAME=VALUE. Without a service manager nothing happens; nor is it an error if it does not listen.
void tell_service_manager(std::string_view state);

}  // namespace comex
