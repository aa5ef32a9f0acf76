#include "fabric/tls_stream.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <openssl/x509v3.h>

namespace comex {
namespace {

std::string openssl_says() {
  const unsigned long code = ERR_get_error();
  ERR_clear_error();
  if (code == 0) return "unknown reason";
  const char* reason = ERR_reason_error_string(code);
  return reason != nullptr ? reason : "error " + std::to_string(code);
}

Error tls_error(const std::string& what) {
  return Error{Errc::invalid, what + ": " + openssl_says()};
}

// OpenSSL's own socket BIO raises SIGPIPE, which is not ours to ignore in somebody's program.
int bio_write(BIO* bio, const char* data, int size) {
  BIO_clear_retry_flags(bio);
  const auto fd = static_cast<int>(reinterpret_cast<std::intptr_t>(BIO_get_data(bio)));
  const ssize_t sent = send(fd, data, static_cast<std::size_t>(size), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent < 0 && (errno == EAGAIN || errno == EINTR)) BIO_set_retry_write(bio);
  return static_cast<int>(sent);
}

int bio_read(BIO* bio, char* data, int size) {
  BIO_clear_retry_flags(bio);
  const auto fd = static_cast<int>(reinterpret_cast<std::intptr_t>(BIO_get_data(bio)));
  const ssize_t got = recv(fd, data, static_cast<std::size_t>(size), MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) BIO_set_retry_read(bio);
  return static_cast<int>(got);
}

long bio_control(BIO*, int command, long, void*) {
  return command == BIO_CTRL_FLUSH ? 1 : 0;
}

BIO_METHOD* quiet_socket_method() {
  static BIO_METHOD* const method = [] {
    BIO_METHOD* m = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "comex socket");
    BIO_meth_set_write(m, bio_write);
    BIO_meth_set_read(m, bio_read);
    BIO_meth_set_ctrl(m, bio_control);
    return m;
  }();
  return method;
}

Expected<SslContext> make_context(const SSL_METHOD* method) {
  SslContext context(SSL_CTX_new(method));
  if (!context) return tls_error("cannot set up TLS");
  SSL_CTX_set_min_proto_version(context.get(), TLS1_3_VERSION);
  SSL_CTX_set_mode(context.get(), SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  // No session tickets: nothing resumes TLS sessions here, and they would be bytes nobody reads.
  SSL_CTX_set_num_tickets(context.get(), 0);
  SSL_CTX_set_read_ahead(context.get(), 1);
  return context;
}

Expected<void> use_certificate(SSL_CTX* context, const std::string& certificate, const std::string& key) {
  if (SSL_CTX_use_certificate_chain_file(context, certificate.c_str()) != 1) {
    return tls_error("cannot use the certificate " + certificate);
  }
  if (SSL_CTX_use_PrivateKey_file(context, key.c_str(), SSL_FILETYPE_PEM) != 1) {
    return tls_error("cannot use the key " + key);
  }
  return {};
}

}  // namespace

Expected<SslContext> make_client_context(const TlsClientConfig& config) {
  auto context = make_context(TLS_client_method());
  if (!context) return context;
  SSL_CTX_set_verify(context->get(), SSL_VERIFY_PEER, nullptr);
  const bool trusted = config.ca.empty() ? SSL_CTX_set_default_verify_paths(context->get()) == 1
                                         : SSL_CTX_load_verify_file(context->get(), config.ca.c_str()) == 1;
  if (!trusted) return tls_error("cannot use the CA " + config.ca);
  if (!config.certificate.empty()) {
    if (auto used = use_certificate(context->get(), config.certificate, config.key); !used) return used.error();
  }
  return context;
}

Expected<SslContext> make_server_context(const TlsServerConfig& config) {
  auto context = make_context(TLS_server_method());
  if (!context) return context;
  if (auto used = use_certificate(context->get(), config.certificate, config.key); !used) return used.error();
  if (!config.client_ca.empty()) {
    if (SSL_CTX_load_verify_file(context->get(), config.client_ca.c_str()) != 1) {
      return tls_error("cannot use the CA " + config.client_ca);
    }
    SSL_CTX_set_verify(context->get(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  }
  return context;
}

Expected<std::unique_ptr<TlsStream>> TlsStream::wrap(Fd socket, SSL_CTX* context) {
  SSL* ssl = SSL_new(context);
  BIO* bio = ssl != nullptr ? BIO_new(quiet_socket_method()) : nullptr;
  if (bio == nullptr) {
    SSL_free(ssl);
    return tls_error("cannot set up TLS");
  }
  BIO_set_data(bio, reinterpret_cast<void*>(static_cast<std::intptr_t>(socket.get())));
  BIO_set_init(bio, 1);
  SSL_set_bio(ssl, bio, bio);
  return std::unique_ptr<TlsStream>(new TlsStream(std::move(socket), ssl));
}

Expected<std::unique_ptr<TlsStream>> TlsStream::client(Fd socket, SSL_CTX* context, const std::string& host) {
  auto stream = wrap(std::move(socket), context);
  if (!stream) return stream;
  SSL* ssl = (*stream)->ssl_.get();
  X509_VERIFY_PARAM* param = SSL_get0_param(ssl);
  // An address is checked against the certificate's addresses, a name against its names.
  const bool set = X509_VERIFY_PARAM_set1_ip_asc(param, host.c_str()) == 1 ||
                   (SSL_set_tlsext_host_name(ssl, host.c_str()) == 1 && SSL_set1_host(ssl, host.c_str()) == 1);
  if (!set) return tls_error("cannot check certificates for " + host);
  ERR_clear_error();
  SSL_set_connect_state(ssl);
  return stream;
}

Expected<std::unique_ptr<TlsStream>> TlsStream::server(Fd socket, SSL_CTX* context) {
  auto stream = wrap(std::move(socket), context);
  if (stream) SSL_set_accept_state((*stream)->ssl_.get());
  return stream;
}

IoResult TlsStream::read(std::span<const iovec> into) noexcept {
  const std::lock_guard lock(mutex_);
  std::size_t total = 0;
  for (const iovec& part : into) {
    std::size_t done = 0;
    while (done < part.iov_len) {
      std::size_t got = 0;
      ERR_clear_error();  // what others left in this thread's queue would be taken for ours
      const int outcome = SSL_read_ex(ssl_.get(), static_cast<char*>(part.iov_base) + done, part.iov_len - done, &got);
      if (outcome <= 0) return total > 0 ? IoResult{total, Errc::ok} : failed(outcome);
      done += got;
      total += got;
    }
  }
  return {total, Errc::ok};
}

IoResult TlsStream::write(std::span<const iovec> from) noexcept {
  const std::lock_guard lock(mutex_);
  return write_gathered(from);
}

// One record at a time, so that a retry after "would block" offers OpenSSL the same bytes again.
IoResult TlsStream::write_gathered(std::span<const iovec> from) noexcept {
  const void* data = from.empty() ? nullptr : from[0].iov_base;
  std::size_t size = from.empty() ? 0 : from[0].iov_len;
  if (size < kRecord) {
    size = 0;
    for (const iovec& part : from) {
      const std::size_t share = std::min(part.iov_len, kRecord - size);
      if (share > 0) std::memcpy(gather_.data() + size, part.iov_base, share);
      size += share;
      if (size == kRecord) break;
    }
    data = gather_.data();
  }
  if (size == 0) return {};
  std::size_t sent = 0;
  ERR_clear_error();
  const int outcome = SSL_write_ex(ssl_.get(), data, std::min(size, kRecord), &sent);
  if (outcome <= 0) return failed(outcome);
  return {sent, Errc::ok};
}

IoResult TlsStream::failed(int outcome) noexcept {
  const int why = SSL_get_error(ssl_.get(), outcome);
  if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE) return {};
  if (complaint_.empty()) {
    const long verdict = SSL_get_verify_result(ssl_.get());
    if (verdict != X509_V_OK) {
      complaint_ = X509_verify_cert_error_string(verdict);
    } else if (why == SSL_ERROR_SSL) {
      complaint_ = openssl_says();
    }
  }
  ERR_clear_error();
  return {0, why == SSL_ERROR_SSL ? Errc::denied : Errc::disconnected};
}

void TlsStream::shut() noexcept {
  ::shutdown(socket_.get(), SHUT_RDWR);
}

short TlsStream::blocked_on(short usual) const noexcept {
  const std::lock_guard lock(mutex_);
  if (SSL_want_read(ssl_.get())) return POLLIN;
  return SSL_want_write(ssl_.get()) ? POLLOUT : usual;
}

std::string TlsStream::complaint() const {
  const std::lock_guard lock(mutex_);
  return complaint_.empty() ? std::string() : "TLS failed: " + complaint_;
}

}  // namespace comex
