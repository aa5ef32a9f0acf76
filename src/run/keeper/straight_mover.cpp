#include "run/keeper/straight_mover.h"

#include <algorithm>
#include <array>
#include <thread>

#include "wire/auth.h"

namespace comex {

namespace {

// The node has said so itself, and the link is as it was; or all that was there is gone.
bool is_answer(Errc code) {
  return code == Errc::invalid || code == Errc::denied || code == Errc::busy || code == Errc::fenced;
}

}  // namespace

StraightMover::Result StraightMover::move(const Run& from, const Run& to) {
  const Pair pair{from.node.value, to.node.value};
  const auto found = not_before_.find(pair);
  if (found != not_before_.end() && Clock::now() < found->second) return {};
  const Result result = try_to(from, to);
  if (result.outcome == Outcome::landed) {
    not_before_.erase(pair);
  } else if (!result.busy) {
    not_before_[pair] = Clock::now() + config_.try_again;
  }
  return result;
}

bool StraightMover::can(const Link& link) {
  return link.node().version >= wire::kStraightVersion && link.node().address.has_value();
}

StraightMover::Result StraightMover::try_to(const Run& from, const Run& to) {
  {
    const auto target = pool_.enter(to.node);
    if (!target || !can(*target)) return {};
  }
  wire::Pull pull;
  wire::SessionKey key{};
  if (const Errc refusal = prepare(from, pull, key); refusal != Errc::ok) {
    return {Outcome::not_landed, 0, refusal == Errc::busy};
  }
  pull.target = {to.extent()};
  std::uint64_t link = 0;
  {
    const auto target = pool_.enter(to.node);
    if (!target || !can(*target)) return {};
    link = target->number();
    pull.covered_key = wire::cover_key(target->session().key, pull.ticket, key);
    if (const auto begun = target->pull(pull); !begun) {
      const Errc refusal = begun.error().code;
      return {is_answer(refusal) ? Outcome::not_landed : Outcome::unknown, link, refusal == Errc::busy};
    }
  }
  return await(to, link);
}

// All of the request that is about the source; or why it gives no ticket.
Errc StraightMover::prepare(const Run& from, wire::Pull& pull, wire::SessionKey& key) {
  const auto source = pool_.enter(from.node);
  if (!source || !can(*source)) return Errc::unsupported;
  const auto ticket = source->ticket(std::array{from.extent()});
  if (!ticket) return ticket.error().code;
  key = wire::ticket_key(source->session().key, *ticket);
  pull.from = *source->node().address;
  pull.boot_id = source->session().boot_id;
  pull.ticket = *ticket;
  pull.source = {from.extent()};
  return Errc::ok;
}

// Until the node says that it is over, or has ended what was asked for on that link.
StraightMover::Result StraightMover::await(const Run& to, std::uint64_t link) {
  const Deadline deadline(config_.patience);
  for (Millis pause = config_.ask_first; !deadline.passed() && !stopping_.load();
       pause = std::min(2 * pause, config_.ask_longest)) {
    std::this_thread::sleep_for(pause);
    const auto target = pool_.enter(to.node);
    // No link, or another: the session has to resume before anything of it can be written or given back, or has.
    if (!target || target->number() != link) return {Outcome::not_landed, link};
    const auto state = target->pulled();
    if (!state) return {is_answer(state.error().code) ? Outcome::not_landed : Outcome::unknown, link};
    if (*state == wire::PullState::under_way) continue;
    return {*state == wire::PullState::landed ? Outcome::landed : Outcome::not_landed, link};
  }
  return {Outcome::unknown, link};
}

}  // namespace comex
