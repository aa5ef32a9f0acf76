// TLS 1.3 over a socket, for networks that are not trusted. Certificates are checked on the client side always (name
// and chain), on the node's side when it is given a CA for clients.
//
// Thread safety: as Stream. OpenSSL's object must not be used by two threads at once, so a mutex stands around each
// call; the calls never block, so it is never held across a wait.
#pragma once

#include <openssl/ssl.h>

#include <array>
#include <memory>
#include <mutex>

#include "fabric/stream.h"
#include "fabric/tls_config.h"

namespace comex {

struct SslContextFree {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};
using SslContext = std::unique_ptr<SSL_CTX, SslContextFree>;

// Errors name the file and what OpenSSL said of it.
Expected<SslContext> make_client_context(const TlsClientConfig& config);
Expected<SslContext> make_server_context(const TlsServerConfig& config);

class TlsStream final : public Stream {
 public:
  // The client side; `host` is the name the certificate must bear. The handshake happens with the first bytes.
  static Expected<std::unique_ptr<TlsStream>> client(Fd socket, SSL_CTX* context, const std::string& host);
  static Expected<std::unique_ptr<TlsStream>> server(Fd socket, SSL_CTX* context);

  IoResult read(std::span<const iovec> into) noexcept override;
  IoResult write(std::span<const iovec> from) noexcept override;
  [[nodiscard]] int fd() const noexcept override { return socket_.get(); }
  void shut() noexcept override;
  [[nodiscard]] short blocked_on(short usual) const noexcept override;

  [[nodiscard]] std::string complaint() const override;

 private:
  struct SslFree {
    void operator()(SSL* ssl) const { SSL_free(ssl); }
  };
  TlsStream(Fd socket, SSL* ssl) : socket_(std::move(socket)), ssl_(ssl) {}
  static Expected<std::unique_ptr<TlsStream>> wrap(Fd socket, SSL_CTX* context);
  IoResult failed(int outcome) noexcept;
  IoResult write_gathered(std::span<const iovec> from) noexcept;

  // One TLS record: small buffers (headers) are gathered into it, so that a request is one record, not three.
  static constexpr std::size_t kRecord = 16 * 1024;

  Fd socket_;
  mutable std::mutex mutex_;  // guards ssl_, gather_ and complaint_
  std::unique_ptr<SSL, SslFree> ssl_;
  std::array<std::byte, kRecord> gather_;
  std::string complaint_;
};

}  // namespace comex
