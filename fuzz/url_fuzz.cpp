// What a user writes: pool URLs, listening addresses, sizes. Whatever is accepted must mean the same when it is
// written out and read again; whatever is refused must say so in one line.
#include <string>
#include <string_view>

#include "base/units.h"
#include "fabric/socket.h"
#include "fabric/url.h"
#include "fuzz/require.h"

namespace {

using namespace comex;
using fuzz::require;

void check_error(const Error& error) {
  require(error.code != Errc::ok && !error.message.empty(), "a refusal says why");
}

void check_url(std::string_view text) {
  const auto url = parse_url(text);
  if (!url) return check_error(url.error());
  if (url->scheme == Url::Scheme::unix_socket) {
    const bool named = url->path.starts_with('/') || url->path.starts_with('@');
    require(named && url->host.empty() && url->port == 0, "a unix URL has a path only");
  } else {
    require(!url->host.empty() && url->port != 0 && url->path.empty(), "a network URL has a host and a port");
  }
  const auto again = parse_url(url->text());
  require(again && *again == *url, "a URL written out is read as the same");
}

void check_urls(std::string_view text) {
  const auto urls = parse_urls(text);
  if (!urls) return check_error(urls.error());
  std::string joined;
  for (const auto& url : *urls) joined += (joined.empty() ? "" : ",") + url.text();
  const auto again = parse_urls(joined);
  require(again && *again == *urls, "a list of URLs written out is read as the same");
}

void check_host_port(std::string_view text) {
  const auto where = parse_host_port(text);
  if (!where) return check_error(where.error());
  const auto again = parse_host_port("[" + where->host + "]:" + std::to_string(where->port));
  require(again && again->host == where->host && again->port == where->port, "an address may be put in brackets");
}

void check_size(std::string_view text) {
  const auto size = parse_size(text);
  if (!size) return check_error(size.error());
  const auto again = parse_size(std::to_string(*size));
  require(again && *again == *size, "a size in bytes is read exactly");
  // Three figures are kept, so it comes back near; the largest may round up to what no longer fits.
  const auto rounded = parse_size(format_size(*size));
  if (!rounded) return require(*size >> 60 == 15, "a size written for people can be read");
  const double ratio = *size == 0 ? 1 : static_cast<double>(*rounded) / static_cast<double>(*size);
  require(*size != 0 || *rounded == 0, "nothing is written as nothing");
  require(ratio > 0.99 && ratio < 1.01, "a size written for people is about the same");
}

void check_duration(std::string_view text) {
  const auto duration = parse_duration(text);
  if (!duration) return check_error(duration.error());
  require(duration->count() >= 0, "a duration is not negative");
  const auto again = parse_duration(std::to_string(duration->count()) + "ms");
  require(again && *again == *duration, "a duration in milliseconds is read exactly");
  require(!format_duration(*duration).empty(), "a duration can be written");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 5) {
    case 0: check_url(text); break;
    case 1: check_urls(text); break;
    case 2: check_host_port(text); break;
    case 3: check_size(text); break;
    default: check_duration(text); break;
  }
  return 0;
}
