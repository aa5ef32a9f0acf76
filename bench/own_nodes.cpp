#include "bench/own_nodes.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>
#include <sstream>
#include <system_error>
#include <thread>

#include "base/units.h"
#include "bench/interrupt.h"
#include "cli/command_line.h"
#include "fabric/connect.h"
#include "fabric/link.h"
#include "fabric/socket.h"

namespace comex::bench {

namespace {

constexpr Millis kSettleTimeout{60'000};
constexpr Millis kSettleLook{5};
constexpr Millis kReadyTimeout{60'000};  // the arena is touched page by page first, on a machine that may be busy

bool may_lock(std::uint64_t bytes) {
  rlimit limit{};
  return ::geteuid() == 0 || (::getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur >= bytes);
}

// The first line, without its end.
Expected<std::string> read_line(int fd, const Deadline& deadline) {
  std::string line;
  for (;;) {
    if (!wait_ready(fd, POLLIN, deadline)) return Error{Errc::timeout, "it said nothing in time"};
    if (interrupted()) return interruption();
    char c = 0;
    const ssize_t got = ::read(fd, &c, 1);
    if (got <= 0) return Error{Errc::disconnected, "it ended"};
    if (c == '\n') return line;
    line += c;
  }
}

Expected<OwnNode> start_node(const std::string& folder, unsigned number, std::uint64_t memory,
                             const std::string& secret_file) {
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) return system_error("cannot make a pipe");
  Fd output(ends[0]);
  const Fd input(ends[1]);
  const std::string log = fmt::format("{}/node-{}.log", folder, number);
  std::vector<std::string> arguments{beside_this_program("comex"),
                                     "serve",
                                     "--memory",
                                     std::to_string(memory),
                                     "--listen",
                                     "127.0.0.1:0",
                                     "--socket",
                                     fmt::format("{}/node-{}.sock", folder, number),
                                     "--secret-file",
                                     secret_file,
                                     "--nid",
                                     std::to_string(number)};
  if (!may_lock(memory)) arguments.emplace_back("--no-lock");
  Expected<Child> process = Child::spawn(arguments, log, input.get());
  if (!process) return process.error();
  // Our copy of the pipe's far end must go, or the end of the node would not be seen.
  return OwnNode{*std::move(process), std::move(output), {}, {}};
}

// A line without a URL is something else the node had to say.
Expected<void> wait_until_ready(OwnNode& node, const std::string& log) {
  const Deadline deadline(kReadyTimeout);
  std::string line;
  while (line.find("://") == std::string::npos) {
    Expected<std::string> next = read_line(node.output.get(), deadline);
    if (interrupted()) return interruption();
    if (!next) {
      std::string why = last_line(log);
      if (why.empty()) why = line.empty() ? next.error().message : line;
      return Error{next.error().code, fmt::format("a memory node of our own did not start: {}", why)};
    }
    line = *std::move(next);
  }
  Expected<ReadyLine> urls = parse_ready_line(line);
  if (!urls) return urls.error();
  node.tcp = std::move(urls->tcp);
  node.shm = std::move(urls->shm);
  return {};
}

}  // namespace

Expected<std::string> write_secret(const std::string& path) {
  std::array<unsigned char, 32> random{};
  if (::getrandom(random.data(), random.size(), 0) != static_cast<ssize_t>(random.size())) {
    return system_error("cannot make a secret");
  }
  std::string secret;
  for (const unsigned char byte : random) secret += fmt::format("{:02x}", byte);
  const Fd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file || ::write(file.get(), secret.data(), secret.size()) != static_cast<ssize_t>(secret.size())) {
    return system_error("cannot write " + path);
  }
  return secret;
}

Expected<ReadyLine> parse_ready_line(const std::string& line) {
  ReadyLine found;
  bool tcp = false;
  bool shm = false;
  std::istringstream words(line);
  for (std::string word; words >> word;) {
    if (word.find("://") == std::string::npos) continue;
    Expected<Url> url = parse_url(word);
    if (!url) return url.error();
    const bool is_shm = url->scheme == Url::Scheme::unix_socket;
    (is_shm ? shm : tcp) = true;
    (is_shm ? found.shm : found.tcp) = *std::move(url);
  }
  if (tcp && shm) return found;
  return Error{Errc::io, fmt::format("a memory node of our own said '{}' instead of where it listens", line)};
}

void OwnNodes::settle() const {
  const Deadline deadline(kSettleTimeout);
  for (const OwnNode& node : nodes_) {
    LinkOptions options;
    options.observe = true;
    const Expected<std::unique_ptr<Link>> link = connect(node.shm, options);
    while (link && !deadline.passed() && !interrupted()) {
      const auto status = (*link)->status();
      if (!status || status->load.free_frames >= std::min(status->frames, status->goal)) break;
      std::this_thread::sleep_for(kSettleLook);
    }
  }
}

Expected<OwnNodes> OwnNodes::start(const std::string& folder, unsigned count, std::uint64_t memory) {
  OwnNodes own;
  Expected<std::string> secret = write_secret(secret_file(folder));
  if (!secret) return secret.error();
  own.secret_ = *std::move(secret);
  for (unsigned number = 1; number <= count; ++number) {
    Expected<OwnNode> node = start_node(folder, number, memory, secret_file(folder));
    if (!node) return node.error();
    own.nodes_.push_back(*std::move(node));
  }
  for (unsigned number = 1; number <= count; ++number) {
    Expected<void> ready = wait_until_ready(own.nodes_[number - 1], fmt::format("{}/node-{}.log", folder, number));
    if (!ready) return ready.error();
  }
  return own;
}

}  // namespace comex::bench
