#include "support/kept.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <stdexcept>

#include "run/keeper/keeper_listen.h"
#include "support/own_address.h"
#include "support/pages.h"

namespace comex::test {

std::byte* own_memory(void*, std::size_t bytes) {
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<std::byte*>(memory);
}

OutpostConfig outpost_config() {
  OutpostConfig config;
  config.own = own_memory;
  config.link.transfer_timeout = config.failover = kPatience;
  config.welcome = kPatience;
  return config;
}

std::vector<Over> kept_media() {
  std::vector<Over> media{Over::shm, Over::tcp, Over::relayed};
  if (std::getenv("COMEX_TEST_RDMA") != nullptr) media.push_back(Over::rdma);
  return media;
}

Kept::Kept(Over over, std::uint64_t memory, std::size_t nodes, std::uint32_t copies, KeeperConfig keeping,
           const KeptNodes& unusual)
    : nodes_(nodes) {
  static std::atomic<int> number{0};
  PoolConfig config;
  config.copies = copies;
  for (std::size_t i = 0; i < nodes; ++i) {
    ServerConfig& server = nodes_[i].config;
    server = TestNode::config();
    server.memory = memory;
    server.nid = NodeId{static_cast<std::uint16_t>(i + 1)};
    server.socket = folder_.path("node" + std::to_string(i));
    server.listen = own_listen();
    if (over == Over::rdma) {
      server.rdma = std::string(std::getenv("COMEX_TEST_RDMA")) + ":0";
      server.handshake_timeout = kPatience;
    }
    if (unusual.configure) unusual.configure(i, server);
    start_node(i);
    const Server& started = *nodes_[i].server;
    config.nodes.push_back(over == Over::shm ? *started.unix_url()
                                             : *(over == Over::rdma ? started.rdma_url() : started.tcp_url()));
    if (unusual.way) config.nodes.back() = unusual.way(i, config.nodes.back());
  }
  keeping.relay = over == Over::relayed;
  config.link.exportable = true;
  config.link.secret = over == Over::shm ? "" : TestNode::kSecret;
  config.link.connect_timeout = config.link.control_timeout = config.link.transfer_timeout = kPatience;
  config.member.backoff_first = Millis(20);
  config.member.backoff_longest = Millis(100);
  config.member.hear = config.member.hear_asked = Millis(50);
  config.member.ask_again_first = config.member.ask_again_longest = Millis(20);
  auto pool = Pool::open(std::move(config));
  if (!pool) throw std::runtime_error("the pool does not open: " + pool.error().message);
  pool_ = *std::move(pool);
  auto keeper = KeeperServer::start(*pool_, std::move(keeping));
  if (!keeper) throw std::runtime_error("the keeper does not start: " + keeper.error().message);
  keeper_ = *std::move(keeper);
  name_ = "@comex-test-" + std::to_string(::getpid()) + "-" + std::to_string(++number);
  auto listener = listen_keeper(name_);
  if (!listener) throw std::runtime_error(listener.error().message);
  keeper_->listen(*std::move(listener));
}

Kept::~Kept() {
  keeper_.reset();
  pool_.reset();
}

void Kept::start_node(std::size_t node) {
  auto& [config, server] = nodes_[node];
  auto started = Server::start(config);
  if (!started) throw std::runtime_error("the node does not start: " + started.error().message);
  server = *std::move(started);
  config.listen = own_address() + ":" + std::to_string(server->tcp_url()->port);
  if (const auto url = server->rdma_url()) config.rdma = url->host + ":" + std::to_string(url->port);
}

std::uint64_t Kept::pages_at(std::size_t node, const Outpost& outpost, const std::vector<Run>& runs) const {
  std::uint64_t count = 0;
  for (const Run& run : runs) {
    for (std::uint32_t i = 0; i < run.count; ++i) {
      const Places places = outpost.readable_places(run.at(i));
      count += std::any_of(places.at.begin(), places.at.begin() + places.count,
                           [&](const Location& place) { return number_of(place.node) == node; });
    }
  }
  return count;
}

std::size_t Kept::number_of(NodeId node) const {
  const auto status = pool_->status();
  std::size_t number = 0;
  while (number < status.size() && status[number].node != node) ++number;
  return number;
}

OutpostOwner Kept::outpost(OutpostConfig config) const {
  Fd socket;
  Outpost* made = nullptr;
  if (connect_keeper(name_, &socket) != Errc::ok) throw std::runtime_error("cannot reach the keeper");
  const Errc created = Outpost::create(std::move(socket), config, &made);
  if (created != Errc::ok) throw std::runtime_error("no outpost: " + std::string(to_string(created)));
  if (made->relayed()) made->open_dock(Dock::kMostBytes);
  return OutpostOwner(made);
}

bool Kept::frames_held_soon(std::uint64_t frames) const {
  return wait_until([&] { return keeper_->status().frames == frames; });
}

bool Kept::processes_soon(std::size_t processes) const {
  return wait_until([&] { return keeper_->status().processes == processes && keeper_->status().leaving == 0; });
}

std::vector<Run> take_exactly(Outpost& outpost, std::uint32_t frames) {
  std::vector<Run> runs;
  const Deadline deadline(kPatience);
  while (frames > 0 && !deadline.passed()) {
    if (const auto run = outpost.take(frames)) {
      runs.push_back(*run);
      frames -= run->count;
    } else {
      (void)outpost.wait_for_frames(1, deadline);
    }
  }
  if (frames > 0) runs.clear();
  return runs;
}

namespace {

// Where a page is read to and written from: memory that is good for that, if the outpost has some.
class OnePage {
 public:
  explicit OnePage(Outpost& outpost) : data_(outpost.transfer_memory(kPageSize)) {
    if (data_ == nullptr) data_ = other_.data();
  }
  [[nodiscard]] std::byte* data() { return data_; }

 private:
  alignas(kPageSize) std::array<std::byte, kPageSize> other_;
  std::byte* data_;
};

// Calls f(page of the seed, where it is), one by one.
template <typename F>
bool for_each_page(const std::vector<Run>& runs, F&& f) {
  std::uint64_t number = 0;
  for (const Run& run : runs) {
    for (std::uint32_t i = 0; i < run.count; ++i) {
      if (!f(number++, run.at(i))) return false;
    }
  }
  return true;
}

}  // namespace

Errc write_seed(Outpost& outpost, const std::vector<Run>& runs, std::uint64_t seed) {
  OnePage page(outpost);
  Errc result = Errc::ok;
  for_each_page(runs, [&](std::uint64_t number, Location where) {
    fill_page(page.data(), seed, number);
    const std::uint32_t ticket = outpost.begin_writes();
    const Places places = outpost.places_of(where);
    if (places.count == 0) {
      const bool lost = outpost.wait_until_readable(where, Deadline(Millis(0))) == Errc::fenced;
      result = lost ? Errc::fenced : Errc::disconnected;
    }
    for (std::uint32_t i = 0; i < places.count && result == Errc::ok; ++i) {
      const std::array segment{Segment{places.at[i].frame, 1, page.data()}};
      result = outpost.write(places.at[i].node, segment);
    }
    if (result == Errc::ok) outpost.wrote(where);
    outpost.end_writes(ticket);
    return result == Errc::ok;
  });
  return result;
}

bool has_seed(Outpost& outpost, const std::vector<Run>& runs, std::uint64_t seed) {
  OnePage page(outpost);
  return for_each_page(runs, [&](std::uint64_t number, Location where) {
    const Reading reading(outpost);
    const Location place = outpost.place_of(where);
    const std::array segment{Segment{place.frame, 1, page.data()}};
    return outpost.read(place.node, segment) == Errc::ok && page_is(page.data(), seed, number);
  });
}

bool has_seed_in_time(Outpost& outpost, const std::vector<Run>& runs, std::uint64_t seed) {
  OnePage page(outpost);
  return for_each_page(runs, [&](std::uint64_t number, Location where) {
    Errc result = Errc::disconnected;
    for (const Deadline deadline(kPatience); result == Errc::disconnected && !deadline.passed();) {
      if (outpost.wait_until_readable(where, deadline) != Errc::ok) break;
      const Reading reading(outpost);
      const Location place = outpost.place_of(where);
      const std::array segment{Segment{place.frame, 1, page.data()}};
      result = outpost.read(place.node, segment);
    }
    return result == Errc::ok && page_is(page.data(), seed, number);
  });
}

bool has_seed_at(Outpost& outpost, const std::vector<Run>& runs, const Run& which, std::uint64_t seed) {
  OnePage page(outpost);
  return for_each_page(runs, [&](std::uint64_t number, Location where) {
    if (where.frame < which.first || which.first + which.count <= where.frame) return true;
    const Reading reading(outpost);
    const Location place = outpost.place_of(where);
    const std::array segment{Segment{place.frame, 1, page.data()}};
    return outpost.read(place.node, segment) == Errc::ok && page_is(page.data(), seed, number);
  });
}

bool has_seed_everywhere(Outpost& outpost, const std::vector<Run>& runs, std::uint64_t seed, std::uint32_t copies) {
  OnePage page(outpost);
  return for_each_page(runs, [&](std::uint64_t number, Location where) {
    const Reading reading(outpost);
    const Places places = outpost.places_of(where);
    bool right = places.count == copies;
    for (std::uint32_t i = 0; i < places.count && right; ++i) {
      const std::array segment{Segment{places.at[i].frame, 1, page.data()}};
      right = outpost.read(places.at[i].node, segment) == Errc::ok && page_is(page.data(), seed, number);
    }
    return right;
  });
}

// --- workers ---

void Worker::Line::say(std::uint64_t number) const {
  (void)::send(fd_, &number, sizeof number, MSG_NOSIGNAL);
}

std::uint64_t Worker::Line::hear() const {
  std::uint64_t number = 0;
  if (::recv(fd_, &number, sizeof number, 0) != sizeof number) ::_exit(9);
  return number;
}

void Worker::Line::say_name(const std::string& name) const {
  (void)::send(fd_, name.data(), name.size(), MSG_NOSIGNAL);
}

std::string Worker::Line::hear_name() const {
  std::array<char, 128> name;
  const ssize_t got = ::recv(fd_, name.data(), name.size(), 0);
  if (got <= 0) ::_exit(0);
  return {name.data(), static_cast<std::size_t>(got)};
}

Worker::Worker(const std::function<int(const Line& line, Outpost& outpost)>& body) {
  int ends[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) throw std::runtime_error("no sockets");
  pid_ = ::fork();
  if (pid_ != 0) {
    ::close(ends[1]);
    fd_ = Fd(ends[0]);
    return;
  }
  ::close(ends[0]);
  const Line line(ends[1]);
  Fd socket;
  Outpost* outpost = nullptr;
  if (connect_keeper(line.hear_name(), &socket) != Errc::ok) ::_exit(8);
  if (Outpost::create(std::move(socket), outpost_config(), &outpost) != Errc::ok) ::_exit(7);
  ::_exit(body(line, *outpost));
}

Worker::~Worker() {
  if (pid_ > 0) kill();
}

void Worker::kill() {
  ::kill(pid_, SIGKILL);
  (void)wait();
}

int Worker::wait() {
  int status = 0;
  ::waitpid(pid_, &status, 0);
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace comex::test
