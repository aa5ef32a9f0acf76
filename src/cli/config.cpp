#include "cli/config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <utility>

#include <toml++/toml.h>

#include "base/units.h"
#include "pool/code_text.h"

namespace comex {
namespace {

Error invalid(std::string message) {
  return Error{Errc::invalid, std::move(message)};
}

// --- how the text of a setting is read ---

Expected<void> read_text(std::string& into, std::string_view text) {
  if (text.empty()) return invalid("is empty; leave it out instead");
  into = text;
  return {};
}

// "none" turns a listener off.
Expected<void> read_optional_text(std::optional<std::string>& into, std::string_view text) {
  if (text.empty()) return invalid("is empty; leave it out for the default, or write \"none\"");
  into = text == "none" ? std::string_view{} : text;
  return {};
}

Expected<void> read_nid(std::optional<std::uint16_t>& into, std::string_view text) {
  std::uint16_t nid = 0;
  const char* const end = text.data() + text.size();
  const auto [after, error] = std::from_chars(text.data(), end, nid);
  if (error != std::errc{} || after != end || nid == 0) {
    return invalid(fmt::format("'{}' is not a node id; use a number from 1 to 65535", text));
  }
  into = nid;
  return {};
}

Expected<void> read_bool(bool& into, std::string_view text) {
  if (text == "true" || text == "yes" || text == "on" || text == "1") {
    into = true;
  } else if (text == "false" || text == "no" || text == "off" || text == "0") {
    into = false;
  } else {
    return invalid(fmt::format("'{}' is neither true nor false", text));
  }
  return {};
}

Expected<void> read_mode(unsigned& into, std::string_view text) {
  unsigned mode = 0;
  const char* const end = text.data() + text.size();
  const auto [after, error] = std::from_chars(text.data(), end, mode, 8);
  if (error != std::errc{} || after != end || mode > 0777) {
    return invalid(fmt::format("'{}' is not a file mode; use an octal one such as 0600 or 0660", text));
  }
  into = mode;
  return {};
}

Expected<void> read_memory(std::optional<std::uint64_t>& into, std::string_view text) {
  if (text == "auto") {
    into.reset();
    return {};
  }
  auto size = parse_size(text);
  if (!size) return invalid(size.error().message + ", or auto");
  if (*size == 0) return invalid("must be more than 0; use a size such as 4G, or auto");
  into = *size;
  return {};
}

Expected<void> read_delivery(Delivery& into, std::string_view text) {
  const auto delivery = parse_delivery(text);
  if (!delivery) return invalid(fmt::format("'{}' is no way to deliver faults; use inline or message", text));
  into = *delivery;
  return {};
}

Expected<void> read_prefetch(Prefetch& into, std::string_view text) {
  const auto choice = parse_prefetch(text);
  if (!choice) return invalid(fmt::format("'{}' is no prefetcher; use {}", text, fmt::join(kPrefetchNames, ", ")));
  into = *choice;
  return {};
}

Expected<void> read_replicas(std::uint32_t& into, std::string_view text) {
  if (text.size() != 1 || text.front() < '1' || text.front() > '3') {
    return invalid(fmt::format("'{}' is no number of copies; use 1, 2 or 3", text));
  }
  into = static_cast<std::uint32_t>(text.front() - '0');
  return {};
}

Expected<void> read_code(Code& into, std::string_view text) {
  if (text == "none") return into = {}, Expected<void>{};
  const auto code = parse_code(text);
  if (!code) {
    return invalid(fmt::format("'{}' is no code; use pages+parity, from 2+1 to 5+1 and 4+2, or none", text));
  }
  into = *code;
  return {};
}

Expected<void> read_evict(Evict& into, std::string_view text) {
  const auto choice = parse_evict(text);
  if (!choice) return invalid(fmt::format("'{}' is no eviction policy; use {}", text, fmt::join(kEvictNames, ", ")));
  into = *choice;
  return {};
}

Expected<void> read_switch(bool& into, std::string_view text) {
  if (text != "on" && text != "off") return invalid(fmt::format("'{}' is not on or off", text));
  into = text == "on";
  return {};
}

Expected<void> read_lease(Millis& into, std::string_view text) {
  auto lease = parse_duration(text);
  if (!lease) return std::move(lease).error();
  // Shorter, and a busy client loses its memory to a hiccup; longer, and a dead one keeps it for as long.
  if (*lease < Millis(500) || *lease > Millis(3'600'000)) {
    return invalid(fmt::format("'{}' is out of range; use 500ms to 1h", text));
  }
  into = *lease;
  return {};
}

Expected<void> read_nodes(std::vector<Url>& into, std::string_view text) {
  auto urls = parse_urls(text);
  if (!urls) return std::move(urls).error();
  into = *std::move(urls);
  return {};
}

// --- the table ---

enum class Kind : std::uint8_t { text, path, integer, boolean, list };  // what a file must hold

struct Setting {
  std::string_view key;
  std::string_view variable;
  Kind kind;
  std::string_view example;  // a right value in a file
  Expected<void> (*read)(Config&, std::string_view);
};

using Text = std::string_view;

// A variable may stand behind two settings: a process uses the pool or serves, and means the one it does.
constexpr std::array kSettings = {
    Setting{"pool.nodes", "COMEX_POOL", Kind::list, R"(["tcp://10.0.0.5:7171"])",
            [](Config& c, Text t) { return read_nodes(c.pool.nodes, t); }},
    Setting{"pool.secret_file", "COMEX_SECRET_FILE", Kind::path, R"("/etc/comex/secret")",
            [](Config& c, Text t) { return read_text(c.pool.secret_file, t); }},
    Setting{"pool.tls_ca", "COMEX_TLS_CA", Kind::path, R"("/etc/comex/ca.pem")",
            [](Config& c, Text t) { return read_text(c.pool.tls_ca, t); }},
    Setting{"pool.tls_cert", "COMEX_TLS_CERT", Kind::path, R"("/etc/comex/client.pem")",
            [](Config& c, Text t) { return read_text(c.pool.tls_cert, t); }},
    Setting{"pool.tls_key", "COMEX_TLS_KEY", Kind::path, R"("/etc/comex/client.key")",
            [](Config& c, Text t) { return read_text(c.pool.tls_key, t); }},
    Setting{"pool.nid", "COMEX_NID", Kind::integer, "17", [](Config& c, Text t) { return read_nid(c.pool.nid, t); }},

    Setting{"serve.memory", "COMEX_MEMORY", Kind::text, R"("4G")",
            [](Config& c, Text t) { return read_memory(c.serve.memory, t); }},
    Setting{"serve.reserve", "COMEX_RESERVE", Kind::text, R"("2G")",
            [](Config& c, Text t) { return read_memory(c.serve.reserve, t); }},
    Setting{"serve.listen", "COMEX_LISTEN", Kind::text, R"("0.0.0.0:7171")",
            [](Config& c, Text t) { return read_optional_text(c.serve.listen, t); }},
    Setting{"serve.rdma", "COMEX_RDMA", Kind::text, R"("10.0.0.6:7171")",
            [](Config& c, Text t) { return read_optional_text(c.serve.rdma, t); }},
    Setting{"serve.socket", "COMEX_SOCKET", Kind::path, R"("/run/comex/comex.sock")",
            [](Config& c, Text t) { return read_optional_text(c.serve.socket, t); }},
    Setting{"serve.socket_mode", "COMEX_SOCKET_MODE", Kind::text, R"("0600")",
            [](Config& c, Text t) { return read_mode(c.serve.socket_mode, t); }},
    Setting{"serve.secret_file", "COMEX_SECRET_FILE", Kind::path, R"("/etc/comex/secret")",
            [](Config& c, Text t) { return read_text(c.serve.secret_file, t); }},
    Setting{"serve.tls_cert", "COMEX_TLS_CERT", Kind::path, R"("/etc/comex/node.pem")",
            [](Config& c, Text t) { return read_text(c.serve.tls_cert, t); }},
    Setting{"serve.tls_key", "COMEX_TLS_KEY", Kind::path, R"("/etc/comex/node.key")",
            [](Config& c, Text t) { return read_text(c.serve.tls_key, t); }},
    Setting{"serve.tls_client_ca", "COMEX_TLS_CLIENT_CA", Kind::path, R"("/etc/comex/ca.pem")",
            [](Config& c, Text t) { return read_text(c.serve.tls_client_ca, t); }},
    Setting{"serve.lease", "COMEX_LEASE", Kind::text, R"("10s")",
            [](Config& c, Text t) { return read_lease(c.serve.lease, t); }},
    Setting{"serve.nid", "COMEX_NID", Kind::integer, "17", [](Config& c, Text t) { return read_nid(c.serve.nid, t); }},
    Setting{"serve.lock", "COMEX_LOCK", Kind::boolean, "true",
            [](Config& c, Text t) { return read_bool(c.serve.lock, t); }},
    Setting{"serve.huge_pages", "COMEX_HUGE_PAGES", Kind::boolean, "true",
            [](Config& c, Text t) { return read_bool(c.serve.huge_pages, t); }},

    Setting{"run.local", "COMEX_LOCAL", Kind::text, R"("512M")",
            [](Config& c, Text t) { return read_memory(c.run.local, t); }},
    Setting{"run.hard", "COMEX_HARD", Kind::text, R"("2G")",
            [](Config& c, Text t) { return read_memory(c.run.hard, t); }},
    Setting{"run.stats", "COMEX_STATS", Kind::path, R"("/tmp/comex-stats.json")",
            [](Config& c, Text t) { return read_text(c.run.stats, t); }},
    Setting{"run.faults", "COMEX_FAULTS", Kind::text, R"("message")",
            [](Config& c, Text t) { return read_delivery(c.run.faults, t); }},
    Setting{"run.prefetch", "COMEX_PREFETCH", Kind::text, R"("leap")",
            [](Config& c, Text t) { return read_prefetch(c.run.prefetch, t); }},
    Setting{"run.trace", "COMEX_TRACE", Kind::path, R"("/tmp/comex.trace")",
            [](Config& c, Text t) { return read_text(c.run.trace, t); }},
    Setting{"run.profile", "COMEX_PROFILE", Kind::path, R"("/var/tmp/comex.profile")",
            [](Config& c, Text t) { return read_text(c.run.profile, t); }},
    Setting{"run.evict", "COMEX_EVICT", Kind::text, R"("fifo")",
            [](Config& c, Text t) { return read_evict(c.run.evict, t); }},
    Setting{"run.checksums", "COMEX_CHECKSUMS", Kind::text, R"("off")",
            [](Config& c, Text t) { return read_switch(c.run.checksums, t); }},
    Setting{"run.encrypt", "COMEX_ENCRYPT", Kind::boolean, "true",
            [](Config& c, Text t) { return read_bool(c.run.encrypt, t); }},
    Setting{"run.replicas", "COMEX_REPLICAS", Kind::integer, "2",
            [](Config& c, Text t) { return read_replicas(c.run.replicas, t); }},
    Setting{"run.backup", "COMEX_BACKUP", Kind::path, R"("/var/tmp")",
            [](Config& c, Text t) { return read_text(c.run.backup, t); }},
    Setting{"run.backup_size", "COMEX_BACKUP_SIZE", Kind::text, R"("8G")",
            [](Config& c, Text t) { return read_memory(c.run.backup_size, t); }},
    Setting{"run.code", "COMEX_CODE", Kind::text, R"("4+1")",
            [](Config& c, Text t) { return read_code(c.run.code, t); }},
    Setting{"run.summary", "COMEX_SUMMARY", Kind::boolean, "true",
            [](Config& c, Text t) { return read_bool(c.run.summary, t); }},
};

const Setting* find_setting(std::string_view key) {
  const auto* const found =
      std::find_if(kSettings.begin(), kSettings.end(), [&](const Setting& s) { return s.key == key; });
  return found == kSettings.end() ? nullptr : found;
}

// --- files ---

std::string_view kind_name(Kind kind) {
  switch (kind) {
    case Kind::text:
    case Kind::path: return "a string";
    case Kind::integer: return "a number";
    case Kind::boolean: return "true or false";
    case Kind::list: return "a list of strings";
  }
  return "something else";
}

// The value as the text a variable or flag would carry; nothing if it is of the wrong type.
std::optional<std::string> as_text(const toml::node& node, Kind kind) {
  switch (kind) {
    case Kind::text:
    case Kind::path: return node.value_exact<std::string>();
    case Kind::integer:
      if (const auto number = node.value_exact<std::int64_t>()) return std::to_string(*number);
      return std::nullopt;
    case Kind::boolean:
      if (const auto flag = node.value_exact<bool>()) return *flag ? "true" : "false";
      return std::nullopt;
    case Kind::list: break;
  }
  const toml::array* const array = node.as_array();
  if (array == nullptr) return std::nullopt;
  std::vector<std::string> items;
  for (const toml::node& item : *array) {
    auto text = item.value_exact<std::string>();
    if (!text) return std::nullopt;
    items.push_back(*std::move(text));
  }
  return fmt::format("{}", fmt::join(items, ","));
}

std::string place(const std::string& file, const toml::source_region& source) {
  return fmt::format("{}:{}", file, source.begin.line);
}

// "memory, listen, socket": the keys of a section, for an error.
std::string keys_of(std::string_view section) {
  std::vector<std::string_view> keys;
  for (const Setting& setting : kSettings) {
    if (setting.key.starts_with(section) && setting.key[section.size()] == '.') {
      keys.push_back(setting.key.substr(section.size() + 1));
    }
  }
  return fmt::format("{}", fmt::join(keys, ", "));
}

Expected<void> read_value(Config& config, const std::string& file, std::string_view section, const toml::key& name,
                          const toml::node& node) {
  const std::string key = fmt::format("{}.{}", section, name.str());
  const Setting* const setting = find_setting(key);
  if (setting == nullptr) {
    return invalid(
        fmt::format("{}: unknown key '{}'; [{}] has {}", place(file, name.source()), key, section, keys_of(section)));
  }
  const auto text = as_text(node, setting->kind);
  if (!text) {
    return invalid(fmt::format("{}: {} must be {}, as in {} = {}", place(file, name.source()), key,
                               kind_name(setting->kind), name.str(), setting->example));
  }
  // Relative to what? The file does not know where the command will be run.
  if (setting->kind == Kind::path && !text->starts_with('/') && *text != "none" && !text->empty()) {
    return invalid(fmt::format("{}: {}: '{}' must be an absolute path, as in {} = {}", place(file, name.source()), key,
                               *text, name.str(), setting->example));
  }
  if (auto done = setting->read(config, *text); !done) {
    return invalid(fmt::format("{}: {}: {}", place(file, name.source()), key, done.error().message));
  }
  return {};
}

Expected<void> read_table(Config& config, const std::string& file, const toml::table& root) {
  for (const auto& [section, content] : root) {
    const bool known = section.str() == "pool" || section.str() == "serve" || section.str() == "run";
    if (!known) {
      return invalid(fmt::format("{}: unknown {} '{}'; there are [pool], [serve] and [run]",
                                 place(file, section.source()), content.is_table() ? "section" : "key", section.str()));
    }
    const toml::table* const table = content.as_table();
    if (table == nullptr) {
      return invalid(fmt::format("{}: '{}' must be a section: write [{}] on a line of its own",
                                 place(file, section.source()), section.str(), section.str()));
    }
    for (const auto& [name, node] : *table) {
      if (auto done = read_value(config, file, section.str(), name, node); !done) return done;
    }
  }
  return {};
}

Expected<void> read_file(Config& config, const std::string& file) {
  // A folder we may not look into (another user's home, after su) holds no configuration of ours.
  struct stat status {};
  if (::stat(file.c_str(), &status) != 0) return {};
  std::ifstream stream(file);
  if (!stream) return system_error(fmt::format("cannot read the configuration {}", file));
  std::string content;
  std::array<char, 4096> piece{};
  while (stream.read(piece.data(), piece.size()) || stream.gcount() > 0) {
    content.append(piece.data(), static_cast<std::size_t>(stream.gcount()));
  }
  if (stream.bad()) return system_error(fmt::format("cannot read the configuration {}", file));
  try {
    return read_table(config, file, toml::parse(content, file));
  } catch (const toml::parse_error& error) {
    return invalid(fmt::format("{}: {}", place(file, error.source()), error.description()));
  }
}

}  // namespace

ConfigSources ConfigSources::of_host() {
  ConfigSources sources;
  sources.variable = [](const char* name) -> const char* { return std::getenv(name); };
  sources.files.emplace_back("/etc/comex/comex.toml");
  const char* const xdg = std::getenv("XDG_CONFIG_HOME");
  const char* const home = std::getenv("HOME");
  if (xdg != nullptr && *xdg == '/') {
    sources.files.push_back(fmt::format("{}/comex/comex.toml", xdg));
  } else if (home != nullptr && *home == '/') {
    sources.files.push_back(fmt::format("{}/.config/comex/comex.toml", home));
  }
  return sources;
}

Expected<Config> load_config(const ConfigSources& sources) {
  Config config;
  for (const auto& file : sources.files) {
    if (auto done = read_file(config, file); !done) return std::move(done).error();
  }
  for (const Setting& setting : kSettings) {
    // An empty variable is as good as none: that is how shells unset one for a single command.
    const char* const value = sources.variable(std::string(setting.variable).c_str());
    if (value == nullptr || *value == '\0') continue;
    if (auto done = set_config(config, setting.key, value, setting.variable); !done) return std::move(done).error();
  }
  return config;
}

Expected<void> set_config(Config& config, std::string_view key, std::string_view text, std::string_view origin) {
  const Setting* const setting = find_setting(key);
  if (setting == nullptr) return invalid(fmt::format("{}: there is no setting '{}'", origin, key));
  if (auto done = setting->read(config, text); !done) {
    return invalid(fmt::format("{}: {}", origin, done.error().message));
  }
  return {};
}

}  // namespace comex
