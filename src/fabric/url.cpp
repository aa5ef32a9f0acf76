#include "fabric/url.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace comex {
namespace {

// By Url::Scheme.
constexpr std::array<std::string_view, 4> kSchemes{"tcp", "tls", "unix", "rdma"};

Error not_a_url(std::string_view text, std::string_view why) {
  return Error{Errc::invalid, fmt::format("'{}' is not a pool URL: {}; use tcp://HOST:7171, tls://HOST:7171, "
                                          "rdma://HOST:7171 or unix:///PATH",
                                          text, why)};
}

}  // namespace

Expected<HostPort> parse_host_port(std::string_view text) {
  const auto wrong = [&] {
    return Error{Errc::invalid, fmt::format("'{}' is not HOST:PORT, such as 127.0.0.1:7171 or [::1]:7171", text)};
  };
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos) return wrong();
  std::string_view host = text.substr(0, colon);
  const std::string_view digits = text.substr(colon + 1);
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return wrong();
  }
  if (host.find_first_of("[]") != std::string_view::npos) return wrong();
  std::uint16_t port = 0;
  const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (failure != std::errc() || end != digits.data() + digits.size()) return wrong();
  return HostPort{std::string(host), port};
}

std::string Url::text() const {
  std::string more;
  const auto add = [&more](std::string_view key, const auto& value) {
    more += fmt::format("{}{}={}", more.empty() ? '?' : '&', key, value);
  };
  if (!domain.empty()) add("domain", domain);
  if (!device.empty()) add("device", device);
  if (device_port != 1) add("port", device_port);
  if (gid) add("gid", *gid);
  if (tos) add("tos", *tos);
  if (scheme == Scheme::unix_socket) return "unix://" + path + more;
  const bool v6 = host.find(':') != std::string::npos;
  return fmt::format("{}://{}{}{}:{}{}", kSchemes[static_cast<std::size_t>(scheme)], v6 ? "[" : "", host, v6 ? "]" : "",
                     port, more);
}

namespace {

bool read_number(std::string_view text, std::uint8_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

// "key=value". False: there is no such key, or it cannot have that value.
bool read_parameter(std::string_view parameter, Url& url) {
  const auto equals = std::min(parameter.find('='), parameter.size());
  const std::string_view key = parameter.substr(0, equals);
  const std::string_view value = parameter.substr(std::min(equals + 1, parameter.size()));
  if (value.empty()) return false;
  if (key == "domain") return url.domain = value, true;
  if (url.scheme != Url::Scheme::rdma) return false;
  if (key == "device") return url.device = value, true;
  if (key == "port") return read_number(value, url.device_port) && url.device_port > 0;
  if (key == "gid") return read_number(value, url.gid.emplace());
  if (key == "tos") return read_number(value, url.tos.emplace());
  return false;
}

bool read_parameters(std::string_view text, Url& url) {
  while (!text.empty()) {
    const auto end = std::min(text.find('&'), text.size());
    if (!read_parameter(text.substr(0, end), url)) return false;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return url.device_port == 1 || !url.device.empty();
}

}  // namespace

Expected<Url> parse_url(std::string_view text) {
  const auto mark = text.find("://");
  if (mark == std::string_view::npos) return not_a_url(text, "it has no scheme");
  const std::string_view scheme = text.substr(0, mark);
  const auto end = std::min(text.find('?', mark), text.size());
  const std::string_view rest = text.substr(mark + 3, end - mark - 3);
  const auto known = std::find(kSchemes.begin(), kSchemes.end(), scheme);
  if (known == kSchemes.end()) return not_a_url(text, "unknown scheme");
  Url url;
  url.scheme = static_cast<Url::Scheme>(known - kSchemes.begin());
  if (end < text.size() && (end + 1 == text.size() || !read_parameters(text.substr(end + 1), url))) {
    return not_a_url(text, "what follows the ? is not domain=NAME, or for rdma device=NAME, port=N, gid=N, tos=N");
  }
  if (url.scheme == Url::Scheme::unix_socket) {
    if (rest.empty() || (rest.front() != '/' && rest.front() != '@'))
      return not_a_url(text, "the path must be absolute");
    url.path = rest;
    return url;
  }
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
