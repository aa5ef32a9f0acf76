// A program's keeper with its pool and memory nodes, inside the test's process; outposts in it; and processes of their
// own that talk to it.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cli/test_folder.h"
#include "node/server.h"
#include "pool/pool.h"
#include "run/keeper/keeper_server.h"
#include "run/outpost/outpost.h"
#include "support/node.h"
#include "support/wait.h"

namespace comex::test {

// Memory that lives as long as the process.
std::byte* own_memory(void* context, std::size_t bytes);
OutpostConfig outpost_config();

struct DestroyOutpost {
  void operator()(Outpost* outpost) const { Outpost::destroy(outpost); }
};
using OutpostOwner = std::unique_ptr<Outpost, DestroyOutpost>;

// What processes with a keeper reach nodes over; RDMA as in media().
std::vector<Over> kept_media();

// What is unusual about the nodes of a keeper.
struct KeptNodes {
  std::function<void(std::size_t node, ServerConfig& config)> configure = nullptr;
  std::function<Url(std::size_t node, const Url& url)> way = nullptr;  // how the keeper comes to it
};

class Kept {
 public:
  // `memory` is each node's.
  explicit Kept(Over over, std::uint64_t memory = TestNode::kMemory, std::size_t nodes = 1, std::uint32_t copies = 1,
                KeeperConfig config = {}, const KeptNodes& unusual = {});
  // ... whose pages are coded.
  Kept(Over over, std::uint64_t memory, std::size_t nodes, Code code)
      : Kept(over, memory, nodes, code.nodes(), coded(code)) {}
  ~Kept();

  [[nodiscard]] const std::string& name() const { return name_; }  // where the keeper listens
  [[nodiscard]] Pool& pool() { return *pool_; }
  [[nodiscard]] KeeperServer& keeper() const { return *keeper_; }
  // Throws, and fails the test, if the keeper does not welcome it.
  [[nodiscard]] OutpostOwner outpost(OutpostConfig config = outpost_config()) const;

  void stop_keeper() { keeper_.reset(); }
  // The node's process ends, and another takes its place.
  void stop_node(std::size_t node = 0) { nodes_[node].server.reset(); }
  void start_node(std::size_t node = 0);
  // REQUIRES: it runs.
  [[nodiscard]] Server& node(std::size_t node) { return *nodes_[node].server; }
  // Which of them it is, by its id in the pool. REQUIRES: it is up.
  [[nodiscard]] std::size_t number_of(NodeId node) const;
  // How many of these pages have a copy on that node.
  [[nodiscard]] std::uint64_t pages_at(std::size_t node, const Outpost& outpost, const std::vector<Run>& runs) const;
  // Frames of a node that are in use, or may still be written to.
  [[nodiscard]] std::uint64_t in_use_at(std::size_t node) const { return pool_->status()[node].in_use; }
  // Sessions with it that were lost.
  [[nodiscard]] std::uint64_t losses_of(std::size_t node) const { return pool_->status()[node].losses; }
  [[nodiscard]] std::string why_lost(std::size_t node) const { return pool_->status()[node].last_error; }
  // Until so many frames are held by processes, and so many processes are there.
  [[nodiscard]] bool frames_held_soon(std::uint64_t frames) const;
  [[nodiscard]] bool processes_soon(std::size_t processes) const;

 private:
  static KeeperConfig coded(Code code) {
    KeeperConfig config;
    config.code = code;
    return config;
  }

  struct Node {
    ServerConfig config;
    std::unique_ptr<Server> server;
  };
  TestFolder folder_;
  std::vector<Node> nodes_;
  std::unique_ptr<Pool> pool_;
  std::unique_ptr<KeeperServer> keeper_;
  std::string name_;
};

// Exactly `frames` frames, in as many runs as it takes.
std::vector<Run> take_exactly(Outpost& outpost, std::uint32_t frames);
// Fills frame i of the runs with page i of the seed, or looks whether it has it.
Errc write_seed(Outpost& outpost, const std::vector<Run>& runs, std::uint64_t seed);
[[nodiscard]] bool has_seed(Outpost& outpost, const std::vector<Run>& runs, std::uint64_t seed);
// ... wherever it is by now, as a fault does: false if there is a wrong page, or none.
[[nodiscard]] bool has_seed_in_time(Outpost& outpost, const std::vector<Run>& runs, std::uint64_t seed);
// ... of one of the runs.
[[nodiscard]] bool has_seed_at(Outpost& outpost, const std::vector<Run>& runs, const Run& which, std::uint64_t seed);
// ... in all of so many copies.
[[nodiscard]] bool has_seed_everywhere(Outpost& outpost, const std::vector<Run>& runs, std::uint64_t seed,
                                       std::uint32_t copies);

// A process of its own. Forked before the keeper's and the node's threads exist, so that it has nothing of theirs.
class Worker {
 public:
  // What the worker does: talks to the test in numbers, and ends with an exit code.
  class Line {
   public:
    explicit Line(int fd) : fd_(fd) {}
    void say(std::uint64_t number) const;
    [[nodiscard]] std::uint64_t hear() const;  // ends the process if the other side is gone
    [[nodiscard]] std::string hear_name() const;
    void say_name(const std::string& name) const;

   private:
    int fd_;
  };
  explicit Worker(const std::function<int(const Line& line, Outpost& outpost)>& body);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // Lets it connect and begin.
  void go(const Kept& kept) const { line().say_name(kept.name()); }
  [[nodiscard]] Line line() const { return Line(fd_.get()); }
  [[nodiscard]] pid_t pid() const { return pid_; }
  void kill();
  // Its exit code.
  int wait();

 private:
  pid_t pid_ = -1;
  Fd fd_;
};

}  // namespace comex::test
