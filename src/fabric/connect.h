// Opens a link to a memory node: picks the kind by the URL, proves both sides to each other, begins or resumes a
// session.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "fabric/link.h"
#include "fabric/tls_config.h"
#include "fabric/url.h"

namespace comex {

struct LinkOptions {
  // The shared secret's bytes (tcp, tls); empty: none, which only a node on a loopback address accepts.
  std::string secret;
  TlsClientConfig tls;
  NodeId nid;                     // this host
  std::string name;               // shown in `comex status`; the program's name is a good one
  std::optional<Session> resume;  // come back to these frames instead of beginning anew
  bool observe = false;           // only ask for status
  bool exportable = false;        // shm: keep descriptors of the slabs, to hand them to other processes of this host

  Millis connect_timeout{3000};   // for each connection, until both sides have proved themselves
  Millis control_timeout{3000};   // for one control call
  Millis transfer_timeout{2000};  // for one transfer; past it the link is broken
  unsigned lanes = 4;             // data connections (tcp, tls, rdma): threads up to this number do not queue
  Nanos max_spin{100'000};        // the longest spin before sleeping; 0: never spin
};

// Errors: Errc::denied (secret, permissions), version, fenced (resume came too late), timeout, disconnected ...; the
// message names the URL and what to do.
Expected<std::unique_ptr<Link>> connect(const Url& url, const LinkOptions& options);

}  // namespace comex
