// What the user configured, from /etc/comex/comex.toml, the user's own comex.toml, COMEX_* variables and flags; later
// wins. One table of settings (config.cpp) says for each its key, its variable and how its text is read, so that the
// three sources cannot drift apart. packaging/comex.toml shows every key.
//
// Thread safety: none needed; a Config is made once, early in main, and is a plain value after that.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/expected.h"
#include "fabric/url.h"
#include "pager/evict/choice.h"
#include "pager/prefetch/choice.h"
#include "pool/code.h"
#include "run/delivery.h"

namespace comex {

// [pool]: which memory nodes to use, and how to prove ourselves to them.
struct PoolSettings {
  std::vector<Url> nodes;
  std::string secret_file;
  std::string tls_ca;
  std::string tls_cert;
  std::string tls_key;
  std::optional<std::uint16_t> nid;  // not set: from the machine id
};

// [serve]: what to lend, and to whom.
struct ServeSettings {
  std::optional<std::uint64_t> memory = std::uint64_t{4} << 30;  // nothing: "auto", what the host can spare
  std::optional<std::uint64_t> reserve;                          // not set: "auto", see node/host_memory.h
  std::optional<std::string> rdma;                               // not set or empty: no RDMA
  std::optional<std::string> listen;                             // not set: the default; empty: no TCP
  std::optional<std::string> socket;                             // not set: the default; empty: no Unix socket
  unsigned socket_mode = 0600;
  std::string secret_file;
  std::string tls_cert;
  std::string tls_key;
  std::string tls_client_ca;
  Millis lease{10'000};
  std::optional<std::uint16_t> nid;  // not set: from the machine id
  bool lock = true;
  bool huge_pages = true;
};

// [run]: how much of a program stays here.
struct RunSettings {
  std::optional<std::uint64_t> local = std::uint64_t{512} << 20;  // nothing: "auto", what the host can spare
  std::optional<std::uint64_t> hard;                              // not set: "auto", see cli/run_plan.h
  std::string stats;                                              // a file; empty: none
  std::string trace;                                              // another
  std::string profile;                                            // another, which is also read
  bool summary = false;
  Delivery faults = Delivery::inline_signal;
  Prefetch prefetch = Prefetch::automatic;
  Evict evict = Evict::two_queues;
  bool checksums = true;
  bool encrypt = false;
  std::uint32_t replicas = 1;                // nodes that each page is kept on
  Code code;                                 // how pages are coded across nodes
  std::string backup;                        // a folder; empty: none
  std::optional<std::uint64_t> backup_size;  // not set: half of what is free there

  // That pages are spread over.
  [[nodiscard]] std::uint32_t nodes() const { return code.coded() ? code.nodes() : replicas; }
};

struct Config {
  PoolSettings pool;
  ServeSettings serve;
  RunSettings run;
};

// Where configuration comes from. Tests replace both.
struct ConfigSources {
  std::vector<std::string> files;  // the first may be overridden by the later; a file need not exist
  std::function<const char*(const char*)> variable;

  static ConfigSources of_host();
};

// Files, then variables. An unknown key, a value of the wrong type and a value that makes no sense are errors that
// name the file and line, or the variable.
Expected<Config> load_config(const ConfigSources& sources = ConfigSources::of_host());

// One more source: a flag. `key` is a key of the table ("serve.memory"), `origin` what to name in an error
// ("--memory").
Expected<void> set_config(Config& config, std::string_view key, std::string_view text, std::string_view origin);

}  // namespace comex
