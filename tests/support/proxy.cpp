#include "support/proxy.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <optional>
#include <stdexcept>
#include <utility>

#include "base/units.h"
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

using Piece = std::array<std::byte, 65'536>;

// What is there, in `bytes`. Nothing once the connection has ended.
std::optional<std::span<std::byte>> receive(const Fd& from, Piece& bytes) {
  const ssize_t got = ::recv(from.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (got > 0) return std::span(bytes).first(static_cast<std::size_t>(got));
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return std::span<std::byte>();
  return std::nullopt;
}

// False once the connection has ended.
bool pass(const Fd& from, const Fd& to, wire::Bytes& record) {
  Piece bytes;
  const auto piece = receive(from, bytes);
  if (!piece) return false;
  record.insert(record.end(), piece->begin(), piece->end());
  send_all(to.get(), *piece);
  return true;
}

}  // namespace

RecordingProxy::RecordingProxy(const Url& node, Change change) : node_(node), change_(std::move(change)), url_(node) {
  auto listener = listen_tcp(node.host + ":0");
  if (!listener) throw std::runtime_error(listener.error().message);
  listener_ = std::move(listener->socket);
  url_.port = listener->port;
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

RecordingProxy::~RecordingProxy() = default;

void RecordingProxy::run(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    if (cutting_.exchange(false)) {
      for (auto& pair : pairs_) pair.end();
    }
    std::vector<pollfd> polled{{listener_.get(), POLLIN, 0}};
    for (const auto& pair : pairs_) {
      polled.push_back({pair.client.get(), POLLIN, 0});  // a closed one is -1, which poll passes over
      polled.push_back({pair.node.get(), POLLIN, 0});
    }
    ::poll(polled.data(), polled.size(), 10);
    for (std::size_t i = 0; i < pairs_.size(); ++i) {
      auto& pair = pairs_[i];
      if (!holding_ && !pair.held.empty()) send_all(pair.client.get(), std::exchange(pair.held, {}));
      bool ended = false;
      if (polled[1 + 2 * i].revents != 0) ended |= !pass(pair.client, pair.node, pair.sent);
      if (polled[2 + 2 * i].revents != 0) ended |= !pass_from_node(pair);
      if (ended) pair.end();
    }
    if (polled[0].revents != 0) accept_one();
  }
}

bool RecordingProxy::pass_from_node(Pair& pair) {
  Piece bytes;
  const auto piece = receive(pair.node, bytes);
  if (!piece) return !pair.held.empty();
  if (change_) change_(*piece);
  const bool goes = !holding_ && pair.held.empty();
  const std::size_t most = goes ? piece->size() : std::min(pair.room, piece->size());
  if (pair.room != SIZE_MAX) pair.room -= std::min(pair.room, most);
  send_all(pair.client.get(), piece->first(most));
  pair.held.insert(pair.held.end(), piece->begin() + static_cast<std::ptrdiff_t>(most), piece->end());
  held_up_ += piece->size() - most;
  return true;
}

void RecordingProxy::accept_one() {
  Fd client(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!client || refusing_) return;
  auto to_node = connect_tcp(node_.host, node_.port, Deadline(kPatience));
  if (!to_node) return;
  pairs_.push_back({std::move(client), *std::move(to_node), {}, holding_ ? kPageSize - 1 : SIZE_MAX, {}});
}

std::vector<wire::Bytes> RecordingProxy::stop() {
  thread_ = {};
  std::vector<wire::Bytes> sent;
  for (auto& pair : pairs_) sent.push_back(std::move(pair.sent));
  return sent;
}

}  // namespace comex::test
