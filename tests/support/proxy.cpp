#include "support/proxy.h"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <stdexcept>
#include <utility>

#include "fabric/socket.h"
#include "support/wait.h"

namespace comex::test {
namespace {

void send_all(int fd, wire::ByteView bytes) {
  const Deadline deadline(kPatience);
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(sent));
    } else if (!wait_ready(fd, POLLOUT, deadline) || (errno != EAGAIN && errno != EINTR)) {
      return;
    }
  }
}

// Passes on what is there. False once the connection has ended.
bool pass(const Fd& from, const Fd& to, wire::Bytes* record, const RecordingProxy::Change& change) {
  std::array<std::byte, 65'536> bytes;
  const ssize_t got = ::recv(from.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (got < 0) return errno == EAGAIN || errno == EINTR;
  if (got == 0) {
    ::shutdown(to.get(), SHUT_WR);
    return false;
  }
  const auto piece = std::span(bytes).first(static_cast<std::size_t>(got));
  if (change) change(piece);
  if (record != nullptr) record->insert(record->end(), piece.begin(), piece.end());
  send_all(to.get(), piece);
  return true;
}

}  // namespace

RecordingProxy::RecordingProxy(const Url& node, Change change) : node_(node), change_(std::move(change)), url_(node) {
  auto listener = listen_tcp("127.0.0.1:0");
  if (!listener) throw std::runtime_error(listener.error().message);
  listener_ = std::move(listener->socket);
  url_.host = "127.0.0.1";
  url_.port = listener->port;
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

RecordingProxy::~RecordingProxy() = default;

void RecordingProxy::run(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    std::vector<pollfd> polled{{listener_.get(), POLLIN, 0}};
    for (const auto& pair : pairs_) {
      polled.push_back({pair.client.get(), POLLIN, 0});  // a closed one is -1, which poll passes over
      polled.push_back({pair.node.get(), POLLIN, 0});
    }
    ::poll(polled.data(), polled.size(), 10);
    for (std::size_t i = 0; i < pairs_.size(); ++i) {
      auto& pair = pairs_[i];
      bool ended = false;
      if (polled[1 + 2 * i].revents != 0) ended |= !pass(pair.client, pair.node, &pair.sent, nullptr);
      if (polled[2 + 2 * i].revents != 0) ended |= !pass(pair.node, pair.client, nullptr, change_);
      if (!ended) continue;
      pair.client.reset();
      pair.node.reset();
    }
    if (polled[0].revents != 0) accept_one();
  }
}

void RecordingProxy::accept_one() {
  Fd client(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!client || refusing_) return;
  auto to_node = connect_tcp(node_.host, node_.port, Deadline(kPatience));
  if (!to_node) return;
  pairs_.push_back({std::move(client), *std::move(to_node), {}});
}

std::vector<wire::Bytes> RecordingProxy::stop() {
  thread_ = {};
  std::vector<wire::Bytes> sent;
  for (auto& pair : pairs_) sent.push_back(std::move(pair.sent));
  return sent;
}

}  // namespace comex::test
