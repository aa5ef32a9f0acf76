#include "cli/link_options.h"

#include <utility>

#include "base/host_id.h"
#include "cli/secret.h"

namespace comex {

Expected<LinkOptions> link_options(const PoolSettings& pool, std::string name) {
  LinkOptions options;
  options.name = std::move(name);
  options.nid = NodeId{pool.nid.value_or(default_host_nid())};
  if (pool.tls_cert.empty() != pool.tls_key.empty()) {
    return Error{Errc::invalid, "tls_cert and tls_key go together; set both or neither in [pool]"};
  }
  options.tls = TlsClientConfig{pool.tls_ca, pool.tls_cert, pool.tls_key};
  if (!pool.secret_file.empty()) {
    auto secret = read_secret(pool.secret_file);
    if (!secret) return std::move(secret).error();
    options.secret = *std::move(secret);
  }
  return options;
}

}  // namespace comex
