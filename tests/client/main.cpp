// A client in a process of its own, for tests that stop it, kill it or run it as another user. Reads commands from
// stdin, one a line, and answers each with one line. What it can do is the list at the end.
//
//   test_client URL [--secret S] [--ca FILE] [--uid N] [--lanes N]
#include <sys/resource.h>
#include <unistd.h>

#include <charconv>
#include <functional>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "fabric/connect.h"
#include "support/pages.h"

namespace {

using namespace comex;  // NOLINT(google-build-using-namespace): a program of its own
using test::Pages;

struct Client {
  Url url;
  LinkOptions options;
  std::unique_ptr<Link> link;
};

std::string name_of(Errc code) {
  return std::string(to_string(code));
}

std::string join(Client& client) {
  auto link = connect(client.url, client.options);
  if (!link) return name_of(link.error().code);
  client.link = *std::move(link);
  return "ok";
}

// grant FRAMES ORDER: "ok 0+128 512+64"
std::string grant(Client& client, std::istringstream& words) {
  std::uint32_t frames = 0;
  unsigned order = 0;
  words >> frames >> order;
  const auto reply = client.link->grant(frames, order);
  if (!reply) return name_of(reply.error().code);
  std::string line = "ok";
  for (const auto& extent : reply->extents) {
    line += " " + std::to_string(extent.first.value) + "+" + std::to_string(extent.count);
  }
  return line;
}

Extent read_extent(std::istringstream& words) {
  Extent extent;
  words >> extent.first.value >> extent.count;
  return extent;
}

// write FIRST COUNT SEED
std::string write(Client& client, std::istringstream& words) {
  const Extent extent = read_extent(words);
  std::uint64_t seed = 0;
  words >> seed;
  Pages pages(extent.count, seed);
  return name_of(test::write(*client.link, extent, pages));
}

// read FIRST COUNT SEED: "ok same", "ok zeros", "ok other", or why not
std::string read(Client& client, std::istringstream& words) {
  const Extent extent = read_extent(words);
  std::uint64_t seed = 0;
  words >> seed;
  Pages pages(extent.count);
  const Errc result = test::read(*client.link, extent, pages);
  if (result != Errc::ok) return name_of(result);
  return pages.are(seed) ? "ok same" : pages.are_zeros() ? "ok zeros" : "ok other";
}

std::string give_back(Client& client, std::istringstream& words) {
  const Extent extent = read_extent(words);
  const auto done = client.link->give_back({&extent, 1});
  return done ? "ok" : name_of(done.error().code);
}

// map SLAB: asks for a descriptor of it
std::string map(Client& client, std::istringstream& words) {
  std::uint32_t slab = 0;
  words >> slab;
  const auto reply = client.link->call(wire::Type::map, wire::encode(wire::Map{{slab}}));
  return reply ? "ok" : name_of(reply.error().code);
}

// resume ID BOOT KEY: joins that session instead of this client's own; KEY in hex
std::string resume(Client& client, std::istringstream& words) {
  Session session;
  std::string key;
  words >> session.client.value >> session.boot_id >> key;
  for (std::size_t i = 0; i < session.key.size() && key.size() >= 2 * session.key.size(); ++i) {
    unsigned value = 0;
    std::from_chars(key.data() + 2 * i, key.data() + 2 * i + 2, value, 16);
    session.key[i] = static_cast<std::byte>(value);
  }
  Client other{client.url, client.options, nullptr};
  other.options.resume = session;
  return join(other);
}

// again: comes back to its own session over a new link
std::string again(Client& client, std::istringstream&) {
  client.options.resume = client.link->session();
  return join(client);
}

// churn FIRST COUNT SEED: says "churning", then writes, reads and compares until something fails, beating in between.
// "ended WHY ROUNDS WRONG": WRONG reads that were said to be good were not what had been written.
std::string churn(Client& client, std::istringstream& words) {
  const Extent extent = read_extent(words);
  std::uint64_t seed = 0;
  words >> seed;
  Pages pages(extent.count);
  std::uint64_t rounds = 0;
  std::uint64_t wrong = 0;
  Errc result = Errc::ok;
  auto next_beat = Clock::now();
  while (result == Errc::ok) {
    pages.fill(seed + rounds);
    result = test::write(*client.link, extent, pages);
    if (result != Errc::ok) break;
    pages.clear();
    result = test::read(*client.link, extent, pages);
    if (result == Errc::ok && !pages.are(seed + rounds)) ++wrong;
    if (result == Errc::ok && Clock::now() >= next_beat) {
      if (const auto beat = client.link->beat(); !beat) result = beat.error().code;
      next_beat = Clock::now() + Millis(20);
    }
    if (rounds++ == 0) std::cout << "churning" << std::endl;
  }
  return "ended " + name_of(result) + " " + std::to_string(rounds) + " " + std::to_string(wrong);
}

std::string beat(Client& client, std::istringstream&) {
  const auto load = client.link->beat();
  return load ? "ok" : name_of(load.error().code);
}

// no_more_files: as if the program had opened as many as it may
std::string no_more_files(Client&, std::istringstream&) {
  const int next = dup(STDIN_FILENO);
  close(next);
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = static_cast<rlim_t>(next);
  return setrlimit(RLIMIT_NOFILE, &limit) == 0 ? "ok" : "cannot";
}

std::string broken(Client& client, std::istringstream&) {
  return name_of(client.link->broken());
}

std::string bye(Client& client, std::istringstream&) {
  client.link->bye();
  return "ok";
}

int run(int argc, char** argv) {
  Client client;
  const auto url = parse_url(argc > 1 ? argv[1] : "");
  if (!url) return 2;
  client.url = *url;
  client.options.name = "test client";
  client.options.connect_timeout = client.options.control_timeout = Millis(20'000);
  client.options.transfer_timeout = Millis(20'000);
  for (int i = 2; i + 1 < argc; i += 2) {
    const std::string flag = argv[i];
    if (flag == "--secret") client.options.secret = argv[i + 1];
    if (flag == "--ca") client.options.tls.ca = argv[i + 1];
    if (flag == "--lanes") client.options.lanes = static_cast<unsigned>(std::stoul(argv[i + 1]));
    if (flag == "--uid") {
      const auto uid = static_cast<uid_t>(std::stoul(argv[i + 1]));
      if (setgid(uid) != 0 || setuid(uid) != 0) return 3;
    }
  }
  const std::string joined = join(client);
  std::cout << joined << std::endl;
  if (joined != "ok") return 1;

  const std::map<std::string, std::function<std::string(Client&, std::istringstream&)>> commands{
      {"grant", grant}, {"write", write},   {"read", read},   {"give_back", give_back},
      {"map", map},     {"resume", resume}, {"again", again}, {"churn", churn},
      {"beat", beat},   {"broken", broken}, {"bye", bye},     {"no_more_files", no_more_files}};
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string command;
    words >> command;
    const auto found = commands.find(command);
    std::cout << (found == commands.end() ? "unknown command" : found->second(client, words)) << std::endl;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return run(argc, argv);
}
