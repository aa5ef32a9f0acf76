#include "run/keeper/keeper_options.h"

#include <exception>
#include <vector>

#include <nlohmann/json.hpp>

namespace comex {
namespace {

using Json = nlohmann::json;

}  // namespace

// CBOR: secrets and names are bytes, not always text.
std::string to_bytes(const KeeperOptions& options) {
  const LinkOptions& link = options.pool.link;
  Json json{{"nodes", Json::array()},
            {"secret", link.secret},
            {"tls_ca", link.tls.ca},
            {"tls_cert", link.tls.certificate},
            {"tls_key", link.tls.key},
            {"nid", link.nid.value},
            {"name", link.name},
            {"local", options.local},
            {"own_memory", options.own_memory},
            {"stock", options.stock},
            {"copies", options.pool.copies},
            {"backup", options.backup.folder},
            {"backup_bytes", options.backup.bytes},
            {"code", {options.code.data, options.code.parity}},
            {"program", options.program},
            {"command", options.command},
            {"log", options.log},
            {"profile", options.profile},
            {"relay", options.relay},
            {"summary", options.summary},
            {"later", options.later}};
  for (const Url& url : options.pool.nodes) json["nodes"].push_back(url.text());
  const std::vector<std::uint8_t> bytes = Json::to_cbor(json);
  return {bytes.begin(), bytes.end()};
}

Expected<KeeperOptions> keeper_options_from(const std::string& bytes) {
  try {
    const Json json = Json::from_cbor(bytes);
    KeeperOptions options;
    for (const Json& node : json.at("nodes")) {
      auto url = parse_url(node.get<std::string>());
      if (!url) return std::move(url).error();
      options.pool.nodes.push_back(*std::move(url));
    }
    LinkOptions& link = options.pool.link;
    json.at("secret").get_to(link.secret);
    json.at("tls_ca").get_to(link.tls.ca);
    json.at("tls_cert").get_to(link.tls.certificate);
    json.at("tls_key").get_to(link.tls.key);
    json.at("nid").get_to(link.nid.value);
    json.at("name").get_to(link.name);
    json.at("local").get_to(options.local);
    json.at("own_memory").get_to(options.own_memory);
    json.at("stock").get_to(options.stock);
    json.at("copies").get_to(options.pool.copies);
    json.at("backup").get_to(options.backup.folder);
    json.at("backup_bytes").get_to(options.backup.bytes);
    json.at("code").at(0).get_to(options.code.data);
    json.at("code").at(1).get_to(options.code.parity);
    json.at("program").get_to(options.program);
    json.at("command").get_to(options.command);
    json.at("log").get_to(options.log);
    json.at("profile").get_to(options.profile);
    json.at("relay").get_to(options.relay);
    json.at("summary").get_to(options.summary);
    json.at("later").get_to(options.later);
    return options;
  } catch (const std::exception& error) {
    return Error{Errc::invalid, error.what()};
  }
}

std::string to_bytes(const KeeperReport& report) {
  return static_cast<char>(report.code) + report.text;
}

KeeperReport keeper_report_from(const std::string& bytes) {
  if (bytes.empty()) return {Errc::io, "the keeper ended before it was ready"};
  return {static_cast<Errc>(bytes.front()), bytes.substr(1)};
}

}  // namespace comex
