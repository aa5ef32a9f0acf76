// Keeps a client's lease while a test is busy with others, as a program's pool does in the background.
#pragma once

#include <thread>

#include "fabric/link.h"

namespace comex::test {

class Heartbeat {
 public:
  // REQUIRES: the link outlives this.
  explicit Heartbeat(Link& link, Millis every = Millis(30))
      : thread_([&link, every](const std::stop_token& stop) {
          while (!stop.stop_requested() && link.beat()) std::this_thread::sleep_for(every);
        }) {}

 private:
  std::jthread thread_;
};

}  // namespace comex::test
