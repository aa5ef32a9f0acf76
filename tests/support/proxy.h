// A small proxy between clients and a node: passes bytes on and keeps what the clients sent. What the node sends can be
// changed on its way, or held up; and connections can be cut.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "base/fd.h"
#include "fabric/url.h"
#include "wire/codec.h"

namespace comex::test {

class RecordingProxy {
 public:
  // May change what comes from the node, a piece at a time. Called by the proxy's thread.
  using Change = std::function<void(std::span<std::byte>)>;

  // In front of a TCP node.
  explicit RecordingProxy(const Url& node, Change change = nullptr);
  ~RecordingProxy();

  [[nodiscard]] const Url& url() const { return url_; }
  // From now on nobody comes in any more; those who are in stay.
  void refuse() { refusing_ = true; }
  // Who comes in from now on gets no whole page before let_go(): a handshake, and the beginning of the first. The rest
  // waits here, and not at the node.
  void hold_newcomers() { holding_ = true; }
  void let_go() { holding_ = false; }
  // How many bytes were, of all so far.
  [[nodiscard]] std::size_t held_up() const { return held_up_; }
  // Ends all connections there are, soon. Others can be made.
  void cut() { cutting_ = true; }
  // Ends it. What was sent to the node, by connection, in the order they were made.
  std::vector<wire::Bytes> stop();

 private:
  struct Pair {
    Fd client;
    Fd node;
    wire::Bytes sent;
    std::size_t room = SIZE_MAX;  // for bytes from the node, before they are held up
    wire::Bytes held;
    void end() {
      client.reset();
      node.reset();
      held.clear();
    }
  };
  void run(const std::stop_token& stop);
  bool pass_from_node(Pair& pair);
  void accept_one();

  Url node_;
  Change change_;
  Url url_;
  Fd listener_;
  std::atomic<bool> refusing_{false};
  std::atomic<bool> holding_{false};
  std::atomic<std::size_t> held_up_{0};
  std::atomic<bool> cutting_{false};
  std::vector<Pair> pairs_;  // the thread's, until it has been joined
  std::jthread thread_;      // last: uses all of the above
};

}  // namespace comex::test
