// How a connection of any kind is opened. Apart from channel.cpp, which needs neither TLS nor RDMA.
#include "fabric/address.h"
#include "fabric/channel.h"
#include "fabric/dial.h"
#include "fabric/rdma_library.h"
#include "fabric/rdma_link.h"
#include "fabric/socket.h"
#include "fabric/tls_stream.h"

namespace comex {
namespace {

Expected<std::unique_ptr<Stream>> open_rdma(const Url& url, const LinkOptions& options, ClientId lane,
                                            std::shared_ptr<RdmaDomain> domain, const Deadline& deadline) {
  if (!domain) {
    auto library = rdma_library();
    if (!library) return std::move(library).error();
    domain = std::make_shared<RdmaDomain>(**library);
  }
  return open_rdma_stream(url, options, domain, lane, deadline);
}

Expected<std::unique_ptr<Stream>> open_stream(const Url& url, const LinkOptions& options, const Deadline& deadline) {
  if (url.scheme == Url::Scheme::unix_socket) {
    auto fd = connect_unix(url.path);
    if (!fd) return std::move(fd).error();
    return std::unique_ptr<Stream>(std::make_unique<SocketStream>(*std::move(fd)));
  }
  auto fd = connect_tcp(url.host, url.port, deadline);
  if (!fd) return std::move(fd).error();
  tune_tcp(fd->get(), options.control_timeout);
  if (url.scheme == Url::Scheme::tcp) return std::unique_ptr<Stream>(std::make_unique<SocketStream>(*std::move(fd)));
  auto context = make_client_context(options.tls);
  if (!context) return std::move(context).error();
  auto tls = TlsStream::client(*std::move(fd), context->get(), url.host);
  if (!tls) return std::move(tls).error();
  return std::unique_ptr<Stream>(*std::move(tls));
}

}  // namespace

Expected<Opened> open_channel(const Url& url, const LinkOptions& options, wire::Purpose purpose, const Session* joined,
                              std::shared_ptr<RdmaDomain> domain) {
  const Deadline deadline(options.connect_timeout);
  const ClientId lane = purpose == wire::Purpose::lane ? joined->client : ClientId{};
  auto stream = url.scheme == Url::Scheme::rdma ? open_rdma(url, options, lane, std::move(domain), deadline)
                                                : open_stream(url, options, deadline);
  if (!stream) return std::move(stream).error();
  const auto address = url.scheme == Url::Scheme::tcp ? peer_address((*stream)->fd()) : std::nullopt;
  auto opened = shake_hands(*std::move(stream), url, options, purpose, joined, deadline);
  if (opened) opened->node.address = address;
  return opened;
}

}  // namespace comex
