// A small proxy between clients and a node: passes bytes on and keeps what the clients sent.
#pragma once

#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/fd.h"
#include "fabric/url.h"
#include "wire/codec.h"

namespace comex::test {

class RecordingProxy {
 public:
  // In front of a TCP node.
  explicit RecordingProxy(const Url& node);
  ~RecordingProxy();

  [[nodiscard]] const Url& url() const { return url_; }
  // Ends it. What was sent to the node, by connection, in the order they were made.
  std::vector<wire::Bytes> stop();

 private:
  struct Pair {
    Fd client;
    Fd node;
    wire::Bytes sent;
  };
  void run(const std::stop_token& stop);
  void accept_one();

  Url node_;
  Url url_;
  Fd listener_;
  std::vector<Pair> pairs_;  // the thread's, until it has been joined
  std::jthread thread_;      // last: uses all of the above
};

}  // namespace comex::test
