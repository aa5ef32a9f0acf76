#include "run/launch/glance.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "base/read_file.h"
#include "fabric/channel.h"
#include "fabric/dial.h"
#include "fabric/hosts_file.h"
#include "pool/failure_domains.h"

namespace comex {
namespace {

constexpr Millis kGlance{30};             // at all of them, one after the other
constexpr Millis kOneNode{10};            // ... and at one
constexpr std::uint32_t kEnough = 1'024;  // frames: with fewer, whether any can be had is for the node to say

// An address, or a name that this machine has on file: to ask others would take too long.
Expected<Fd> dial_known(const Url& url, const Deadline& deadline) {
  auto dialled = dial_number(url.host, url.port, deadline);
  if (dialled || dialled.error().code != Errc::invalid) return dialled;
  for (const std::string& address : addresses_in(read_file("/etc/hosts").value_or(""), url.host)) {
    dialled = dial_number(address, url.port, deadline);
    if (dialled) break;
  }
  return dialled;
}

Expected<Fd> reach(const Url& url, const Deadline& deadline) {
  switch (url.scheme) {
    case Url::Scheme::unix_socket: return connect_unix(url.path);
    case Url::Scheme::tcp: return dial_known(url, deadline);
    default: return Error{Errc::unsupported, "not at a glance"};
  }
}

// Session::boot_id of a node that has memory to lend; otherwise nothing.
std::optional<std::uint64_t> find_lender(const Url& url, const LinkOptions& options, const Deadline& deadline) {
  auto fd = reach(url, deadline);
  if (!fd) return std::nullopt;
  auto opened = shake_hands(std::make_unique<SocketStream>(*std::move(fd)), url, options, wire::Purpose::observe,
                            nullptr, deadline);
  if (!opened) return std::nullopt;
  const auto reply = opened->channel->call(wire::Type::status, {}, deadline);
  const auto status = reply ? wire::decode<wire::StatusReply>(reply->body) : std::nullopt;
  const bool lends = status && std::uint64_t{status->lent} + kEnough <= std::min(status->frames, status->goal) &&
                     status->load.free_frames >= kEnough;
  return lends ? std::optional(opened->session.boot_id) : std::nullopt;
}

}  // namespace

bool seen_at_a_glance(const PoolConfig& pool) {
  const Deadline deadline(kGlance);
  std::vector<Url> there;
  std::set<std::uint64_t> seen;  // one that has two URLs counts once
  for (const Url& url : pool.nodes) {
    const Deadline its = Deadline::at(std::min(deadline.when(), Clock::now() + kOneNode));
    const auto lender = deadline.passed() ? std::nullopt : find_lender(url, pool.link, its);
    if (lender && seen.insert(*lender).second) there.push_back(url);
    if (count_domains(there) >= pool.copies) return true;
  }
  return false;
}

}  // namespace comex
