#include "cli/serve_plan.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <utility>

#include "base/host_id.h"
#include "cli/secret.h"
#include "fabric/socket.h"
#include "fabric/url.h"

namespace comex {
namespace {

// A name other than localhost counts as not loopback: what it resolves to can change under us.
bool is_loopback(const std::string& host) {
  if (host == "localhost") return true;
  in_addr v4{};
  if (::inet_pton(AF_INET, host.c_str(), &v4) == 1) return ntohl(v4.s_addr) >> 24 == 127;
  in6_addr v6{};
  return ::inet_pton(AF_INET6, host.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

Expected<void> check_tls(const TlsServerConfig& tls) {
  if (tls.certificate.empty() != tls.key.empty()) {
    return Error{Errc::invalid, "--tls-cert and --tls-key go together: give both or neither"};
  }
  if (!tls.client_ca.empty() && tls.certificate.empty()) {
    return Error{Errc::invalid, "--tls-client-ca needs TLS: give --tls-cert and --tls-key too"};
  }
  return {};
}

Expected<void> check_listen(const ServerConfig& config, bool authenticated) {
  const auto where = parse_host_port(config.listen);
  if (!where) return Error{Errc::invalid, "--listen: " + where.error().message};
  if (authenticated || is_loopback(where->host)) return {};
  return Error{Errc::denied,
               fmt::format("anybody who can reach {} could use this memory: give --secret-file FILE (make one: (umask "
                           "077; openssl rand -hex 32 > FILE)) or --tls-client-ca FILE, or listen on 127.0.0.1:{}",
                           config.listen, where->port)};
}

// A device that only this machine can reach is the exception.
Expected<void> check_rdma(const ServerConfig& config) {
  if (const auto where = parse_host_port(config.rdma); !where) {
    return Error{Errc::invalid, "--rdma: " + where.error().message};
  }
  if (!config.secret.empty()) return {};
  return Error{Errc::denied,
               fmt::format("anybody who can reach {} could use this memory: give --secret-file FILE (make "
                           "one: (umask 077; openssl rand -hex 32 > FILE))",
                           config.rdma)};
}

std::string default_socket(const ServeHost& host) {
  if (host.root) return fmt::format("{}/comex.sock", kSystemSocketDir);
  if (!host.runtime_dir.empty()) return fmt::format("{}/comex.sock", host.runtime_dir);
  return {};  // nowhere that is ours alone; TCP on loopback still works
}

}  // namespace

ServeHost ServeHost::here() {
  const char* const runtime_dir = std::getenv("XDG_RUNTIME_DIR");
  return ServeHost{
      .root = ::geteuid() == 0, .runtime_dir = runtime_dir == nullptr ? "" : runtime_dir, .nid = default_host_nid()};
}

Expected<ServerConfig> plan_serve(const ServeSettings& settings, const ServeHost& host) {
  ServerConfig config;
  config.memory = settings.memory.value_or(0);
  config.lock = settings.lock;
  config.huge_pages = settings.huge_pages;
  config.socket_mode = settings.socket_mode;
  config.lease = settings.lease;
  config.nid = NodeId{settings.nid.value_or(host.nid)};
  config.tls = TlsServerConfig{settings.tls_cert, settings.tls_key, settings.tls_client_ca};
  if (auto checked = check_tls(config.tls); !checked) return std::move(checked).error();
  if (!settings.secret_file.empty()) {
    auto secret = read_secret(settings.secret_file);
    if (!secret) return std::move(secret).error();
    config.secret = *std::move(secret);
  }

  const bool authenticated = !config.secret.empty() || !config.tls.client_ca.empty();
  config.listen = settings.listen.value_or(fmt::format("{}:{}", authenticated ? "0.0.0.0" : "127.0.0.1", kDefaultPort));
  config.socket = settings.socket.value_or(default_socket(host));
  // Clients need the whole path, in a URL: they are elsewhere.
  if (!config.socket.empty()) config.socket = std::filesystem::absolute(config.socket).lexically_normal();
  config.rdma = settings.rdma.value_or("");
  if (config.listen.empty() && config.socket.empty() && config.rdma.empty()) {
    return Error{Errc::invalid,
                 "nowhere for clients to come in: give --listen HOST:PORT, --rdma HOST:PORT or --socket PATH"};
  }
  if (!config.rdma.empty()) {
    if (auto checked = check_rdma(config); !checked) return std::move(checked).error();
  }
  if (!config.listen.empty()) {
    if (auto checked = check_listen(config, authenticated); !checked) return std::move(checked).error();
  }
  return config;
}

}  // namespace comex
