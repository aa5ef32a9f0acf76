#include "node/tickets.h"

#include <algorithm>
#include <shared_mutex>
#include <utility>

#include "wire/auth.h"

namespace comex {

bool Ticket::opens(const Extent& extent) const {
  return std::any_of(extents.begin(), extents.end(),
                     [&](const Extent& mine) { return extent.first >= mine.first && extent.end() <= mine.end(); });
}

Expected<wire::TicketReply> Tickets::issue(const std::shared_ptr<Client>& client, std::uint32_t coming,
                                           std::vector<Extent> extents, Clock::time_point now) {
  {
    const std::shared_lock access(client->access);
    for (const auto& extent : extents) {
      if (!client->holdings.holds(extent)) return Error{Errc::denied, "a ticket is for frames that are held"};
    }
  }
  const std::lock_guard lock(mutex_);
  std::erase_if(tickets_, [&](const auto& entry) { return !entry.second->is_good(now); });
  const auto mine = std::count_if(tickets_.begin(), tickets_.end(),
                                  [&](const auto& entry) { return entry.second->client == client; });
  if (tickets_.size() >= config_.of_all || static_cast<std::size_t>(mine) >= config_.of_client) {
    return Error{Errc::busy, "too many tickets are out; those that are not used go by themselves"};
  }
  const wire::TicketReply reply{++last_number_, wire::make_nonce()};
  tickets_[reply.number] = std::make_shared<const Ticket>(
      Ticket{client, coming, std::move(extents), wire::ticket_key(client->key, reply), now + config_.life});
  return reply;
}

std::shared_ptr<const Ticket> Tickets::find(std::uint64_t number, Clock::time_point now) const {
  const std::lock_guard lock(mutex_);
  const auto found = tickets_.find(number);
  return found != tickets_.end() && found->second->is_good(now) ? found->second : nullptr;
}

bool Tickets::redeem(std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  return tickets_.erase(number) > 0;
}

}  // namespace comex
