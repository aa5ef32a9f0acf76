// The socket with a name by which processes come to the keeper.
#pragma once

#include <string>

#include "base/expected.h"
#include "base/fd.h"

namespace comex {

// A name for a socket that leaves nothing behind, however its owner ends.
Expected<std::string> abstract_name(const char* kind);

// A listening SEQPACKET socket; "@name" is an abstract one, anything else a path that must not exist, for this user
// only.
Expected<Fd> listen_keeper(const std::string& name);

}  // namespace comex
