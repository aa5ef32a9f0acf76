#include "fabric/url.h"

#include <fmt/format.h>

#include "fabric/socket.h"

namespace comex {
namespace {

constexpr std::string_view kDomain = "?domain=";

Error not_a_url(std::string_view text, std::string_view why) {
  return Error{Errc::invalid, fmt::format("'{}' is not a pool URL: {}; use tcp://HOST:7171, tls://HOST:7171 or "
                                          "unix:///PATH",
                                          text, why)};
}

}  // namespace

std::string Url::text() const {
  const std::string of_domain = domain.empty() ? "" : std::string(kDomain) + domain;
  if (scheme == Scheme::unix_socket) return "unix://" + path + of_domain;
  const bool v6 = host.find(':') != std::string::npos;
  return fmt::format("{}://{}{}{}:{}{}", scheme == Scheme::tls ? "tls" : "tcp", v6 ? "[" : "", host, v6 ? "]" : "",
                     port, of_domain);
}

Expected<Url> parse_url(std::string_view text) {
  const auto mark = text.find("://");
  if (mark == std::string_view::npos) return not_a_url(text, "it has no scheme");
  const std::string_view scheme = text.substr(0, mark);
  const auto end = std::min(text.find(kDomain, mark), text.size());
  const std::string_view rest = text.substr(mark + 3, end - mark - 3);
  Url url;
  if (end < text.size()) {
    url.domain = text.substr(end + kDomain.size());
    if (url.domain.empty()) return not_a_url(text, "the domain has no name");
  }
  if (scheme == "unix") {
    if (rest.empty() || (rest.front() != '/' && rest.front() != '@'))
      return not_a_url(text, "the path must be absolute");
    url.scheme = Url::Scheme::unix_socket;
    url.path = rest;
    return url;
  }
  if (scheme == "rdma") return Error{Errc::unsupported, "rdma:// is not in this version of comex; use tcp://"};
  if (scheme != "tcp" && scheme != "tls") return not_a_url(text, "unknown scheme");
  url.scheme = scheme == "tls" ? Url::Scheme::tls : Url::Scheme::tcp;
  const bool has_port = rest.find(':', rest.find(']') == std::string_view::npos ? 0 : rest.find(']')) != rest.npos;
  auto where = parse_host_port(has_port ? std::string(rest) : fmt::format("{}:{}", rest, kDefaultPort));
  if (!where || where->host.empty() || where->port == 0) return not_a_url(text, "no HOST:PORT");
  url.host = std::move(where->host);
  url.port = where->port;
  return url;
}

Expected<std::vector<Url>> parse_urls(std::string_view text) {
  std::vector<Url> urls;
  while (!text.empty()) {
    const auto comma = std::min(text.find(','), text.size());
    if (comma > 0) {
      auto url = parse_url(text.substr(0, comma));
      if (!url) return std::move(url).error();
      urls.push_back(*std::move(url));
    }
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return urls;
}

}  // namespace comex
