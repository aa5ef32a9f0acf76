#include "run/outpost/outpost.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstddef>
#include <cstring>
#include <mutex>
#include <new>

#include "base/wait_ready.h"
#include "run/lifeline.h"
#include "run/own_descriptors.h"

namespace comex {
namespace {

// How long a waiting thread sleeps before it looks by itself: another may have received what it waits for.
constexpr Millis kNap{5};

}  // namespace

Outpost::Outpost(Fd socket, const OutpostConfig& config, Run* at_hand, Run* returns, Run* sending, std::byte* buffer,
                 std::atomic<OutpostNode*>* nodes)
    : config_(config),
      record_(config.record),
      socket_(std::move(socket)),
      nodes_(nodes),
      at_hand_(at_hand, config.at_hand_runs),
      returns_(returns, config.return_runs),
      buffer_(buffer),
      sending_(sending),
      stock_(config.first_stock) {}

Outpost::~Outpost() {
  for_each_node([](OutpostNode& node) { node.~OutpostNode(); });
  if (lifeline_ != nullptr) let_go_of_lifeline(lifeline_);
}

Errc Outpost::create(Fd socket, const OutpostConfig& config, Outpost** made) noexcept {
  const auto own = [&](std::size_t bytes) { return config.own(config.context, bytes); };
  std::byte* const self = own(sizeof(Outpost));
  auto* const at_hand = reinterpret_cast<Run*>(own(config.at_hand_runs * sizeof(Run)));
  auto* const returns = reinterpret_cast<Run*>(own(config.return_runs * sizeof(Run)));
  auto* const sending = reinterpret_cast<Run*>(own(keeper_wire::kMaxRuns * sizeof(Run)));
  std::byte* const buffer = own(keeper_wire::kMaxMessage);
  auto* const nodes = reinterpret_cast<std::atomic<OutpostNode*>*>(own((keeper_wire::kDisk.value + 1) * sizeof(void*)));
  if (self == nullptr || at_hand == nullptr || returns == nullptr || sending == nullptr || buffer == nullptr ||
      nodes == nullptr) {
    return Errc::io;
  }
  auto* const outpost = new (self) Outpost(std::move(socket), config, at_hand, returns, sending, buffer, nodes);
  const Errc greeted = outpost->greet(Deadline(config.welcome));
  if (greeted != Errc::ok) {
    outpost->~Outpost();
    return greeted;
  }
  *made = outpost;
  return Errc::ok;
}

void Outpost::destroy(Outpost* outpost) noexcept {
  outpost->~Outpost();
}

void Outpost::open_dock(std::size_t bytes) noexcept {
  const std::lock_guard received(own_descriptors.mutex);
  Fd file = own_descriptors.adopt(Dock::make_file(bytes));
  const int number = file.get();
  if (dock_.open(std::move(file), bytes) != Errc::ok) own_descriptors.drop(number);
}

OutpostNode* Outpost::find(NodeId node) const noexcept {
  return node <= keeper_wire::kDisk ? nodes_[node.value].load(std::memory_order_acquire) : nullptr;
}

std::string_view Outpost::name_of(NodeId node) const noexcept {
  const OutpostNode* const found = find(node);
  return found != nullptr ? found->told().name.view() : std::string_view();
}

void Outpost::count_in(Record& record) noexcept {
  record_ = &record;
  for_each_node([this](OutpostNode& node) { node.count_in(record_); });
}

// --- frames ---

std::optional<Run> Outpost::take(std::uint32_t want) noexcept {
  const auto writable = [this](const Run& run) { return places_of(run.at(0)).count > 0; };
  std::optional<Run> run;
  {
    const std::lock_guard lock(frames_mutex_);
    run = at_hand_.take(want, writable);
  }
  if (run) {
    taken_.fetch_add(run->count, std::memory_order_relaxed);
  } else if (want > 0) {
    ran_dry_.store(true, std::memory_order_relaxed);
  }
  return run;
}

void Outpost::put_back(const Run& run) noexcept {
  if (run.count == 0) return;
  {
    const std::lock_guard lock(frames_mutex_);
    // Of a node that is away they are nothing to have at hand; give_up() looks under the same mutex.
    if (places_of(run.at(0)).count > 0 && at_hand_.put_back(run)) return;
  }
  give_back(run);
}

void Outpost::give_back(const Run& run) noexcept {
  if (run.count == 0) return;
  {
    const std::lock_guard lock(returns_mutex_);
    if (returns_.add(run)) return;
  }
  tend();  // makes room, unless another thread is at it
  const std::lock_guard lock(returns_mutex_);
  if (!returns_.add(run)) stranded_.fetch_add(run.count, std::memory_order_relaxed);
}

bool Outpost::is_near(NodeId node) const noexcept {
  const OutpostNode* const known = find(node);
  return known != nullptr && known->shm();
}

std::uint32_t Outpost::at_hand() const noexcept {
  const std::lock_guard lock(frames_mutex_);
  std::uint32_t frames = 0;
  for (const Run& run : at_hand_.runs()) frames += places_of(run.at(0)).count > 0 ? run.count : 0;
  return frames;
}

// --- places ---

const ChunkEntry& Outpost::entry_of(FrameNo home) const noexcept {
  return map_[chunk_of(home).value];
}

bool Outpost::has_heard_of(const ChunkEntry& entry, std::uint64_t place) const noexcept {
  return (place & ChunkEntry::kLate) == 0 ||
         entry.since.load(std::memory_order_acquire) <= heard_.load(std::memory_order_acquire);
}

bool Outpost::usable(const ChunkEntry& entry, std::uint64_t place) const noexcept {
  if (!has_heard_of(entry, place)) return false;
  OutpostNode* const node = find(ChunkEntry::decode(place, 0).node);
  return node != nullptr && node->state() == Errc::ok;
}

bool Outpost::readable(const ChunkEntry& entry, std::uint64_t place, FrameNo home) const noexcept {
  if ((place & ChunkEntry::kBackup) == 0) return usable(entry, place);
  if (backup_ == nullptr || !usable(entry, place)) return false;
  const std::uint64_t there = backup_[chunk_of(home).value].on_disk.load(std::memory_order_acquire);
  return (there >> home.value % kChunkFrames & 1) != 0;
}

bool Outpost::writable(const ChunkEntry& entry, std::uint64_t place) const noexcept {
  return usable(entry, place) && find(ChunkEntry::decode(place, 0).node)->takes_writes();
}

// The first that is not clearly slower than another.
Location Outpost::place_of(Location home) const noexcept {
  if (code_.coded()) return coded_place_of(home);
  const ChunkEntry& entry = entry_of(home.frame);
  const std::uint32_t offset = home.frame.value % kChunkFrames;
  std::uint64_t any = 0;
  std::uint64_t backup = 0;
  std::uint64_t best = 0;
  const OutpostNode* best_node = nullptr;
  for (const auto& word : entry.places) {
    const std::uint64_t place = word.load(std::memory_order_acquire);
    if ((place & ChunkEntry::kThere) == 0) continue;
    if ((place & ChunkEntry::kBackup) != 0) {
      backup = place;
      continue;
    }
    if (!has_heard_of(entry, place)) continue;
    // The only one there is need not be looked at: a transfer will find out.
    if (copies_ == 1 && backup_ == nullptr) return ChunkEntry::decode(place, offset);
    any = place;
    if (!usable(entry, place)) continue;
    const OutpostNode* const node = find(ChunkEntry::decode(place, 0).node);
    if (best_node != nullptr && !node->speed.clearly_faster_than(best_node->speed)) continue;
    best = place;
    best_node = node;
  }
  if (best != 0) return ChunkEntry::decode(best, offset);
  if (backup != 0 && readable(entry, backup, home.frame)) any = backup;
  // Copies may come and go while they are looked at one by one, or be new to this process: then there is none now.
  return any != 0 ? ChunkEntry::decode(any, offset) : Location{kNowhere, {}};
}

Location Outpost::place_to_measure(Location home) noexcept {
  const Location usual = place_of(home);
  if (copies_ == 1) return usual;
  const std::uint64_t measured = measured_.fetch_add(1, std::memory_order_relaxed) + 1;
  const OutpostNode* const node = find(usual.node);
  const Places places = readable_places(home);
  for (std::uint32_t i = 0; i < places.count && node != nullptr; ++i) {
    const OutpostNode* const other = find(places.at[i].node);
    if (places.at[i].node == keeper_wire::kDisk) continue;  // not for its speed
    if (other == node || other == nullptr || measured < other->speed.measure_after(node->speed)) continue;
    measured_.store(0, std::memory_order_relaxed);
    return places.at[i];
  }
  return usual;
}

void Outpost::saw_read(NodeId node, std::uint32_t pages, Nanos took) noexcept {
  if (OutpostNode* const known = find(node)) known->speed.saw(pages, took);
}

Places Outpost::places_of(Location home) const noexcept {
  if (code_.coded()) return coded_places_of(home);
  const ChunkEntry& entry = entry_of(home.frame);
  Places places;
  if (entry.flags.load(std::memory_order_seq_cst) != 0) return places;
  for (const auto& word : entry.places) {
    const std::uint64_t place = word.load(std::memory_order_acquire);
    if ((place & ChunkEntry::kThere) == 0 || (place & ChunkEntry::kBackup) != 0) continue;
    if (!writable(entry, place)) return {};
    places.at[places.count++] = ChunkEntry::decode(place, home.frame.value % kChunkFrames);
  }
  return places;
}

Places Outpost::readable_places(Location home) const noexcept {
  if (code_.coded()) return coded_readable_places(home);
  const ChunkEntry& entry = entry_of(home.frame);
  Places places;
  for (const auto& word : entry.places) {
    const std::uint64_t place = word.load(std::memory_order_acquire);
    if ((place & ChunkEntry::kThere) == 0 || !readable(entry, place, home.frame)) continue;
    places.at[places.count++] = ChunkEntry::decode(place, home.frame.value % kChunkFrames);
  }
  return places;
}

// With release: who copies the page finds it where it was written.
void Outpost::wrote(Location home) noexcept {
  if (backup_ == nullptr) return;
  const std::uint64_t bit = std::uint64_t{1} << home.frame.value % kChunkFrames;
  backup_[chunk_of(home.frame).value].written.fetch_or(bit, std::memory_order_release);
}

Outpost::PlaceWords Outpost::words_of(const ChunkEntry& entry) noexcept {
  PlaceWords words;
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = entry.places[i].load(std::memory_order_acquire);
  return words;
}

// ok if a copy can be read; fenced if all are lost, which is for ever: so it is said only of places that were there
// together. See "a reader meets a map that changes under it" in docs/design-notes.md.
Errc Outpost::state_of(Location home) const noexcept {
  const ChunkEntry& entry = entry_of(home.frame);
  const PlaceWords words = words_of(entry);
  const Errc state = code_.coded() ? coded_state_of(entry, words, home.frame) : state_of(entry, words, home.frame);
  if (state != Errc::fenced) return state;
  return words != PlaceWords{} && words == words_of(entry) ? Errc::fenced : Errc::disconnected;
}

Errc Outpost::state_of(const ChunkEntry& entry, const PlaceWords& words, FrameNo home) const noexcept {
  Errc state = Errc::fenced;
  for (const std::uint64_t place : words) {
    if ((place & ChunkEntry::kThere) == 0) continue;
    if (readable(entry, place, home)) return Errc::ok;
    if ((place & ChunkEntry::kBackup) != 0) continue;
    if (state_of(entry, place) != Errc::fenced) state = Errc::disconnected;
  }
  return state;
}

// Of one that was not heard of yet, what is known of its node may be of a session before.
Errc Outpost::state_of(const ChunkEntry& entry, std::uint64_t place) const noexcept {
  OutpostNode* const node = find(ChunkEntry::decode(place, 0).node);
  return node != nullptr && has_heard_of(entry, place) ? node->state() : Errc::disconnected;
}

// --- pages ---

void Outpost::submit(NodeId node, Transfer& transfer) noexcept {
  if (OutpostNode* const found = find(node)) return found->submit(transfer);
  if (node == kMade) return make(transfer);
  transfer.begin();
  const Errc unknown = node == kNowhere ? Errc::disconnected : Errc::invalid;
  transfer.finish(keeper_gone() ? Errc::fenced : unknown);
}

void Outpost::poll(NodeId node) noexcept {
  if (OutpostNode* const found = find(node)) found->poll();
}

Errc Outpost::wait(NodeId node, Transfer& transfer) noexcept {
  OutpostNode* const found = find(node);
  return found != nullptr ? found->wait(transfer) : transfer.result();
}

// --- waiting ---

void Outpost::nap(const Deadline& deadline) noexcept {
  const auto soon = Clock::now() + kNap;
  (void)wait_ready(socket_.get(), POLLIN, Deadline::at(soon < deadline.when() ? soon : deadline.when()));
}

Errc Outpost::wait_until_decided(NodeId node, const Deadline& deadline) noexcept {
  for (;;) {
    tend();
    OutpostNode* const found = find(node);
    if (found == nullptr) return keeper_gone() ? Errc::fenced : Errc::invalid;
    const Errc state = found->state();
    if (state != Errc::disconnected) return state;
    if (deadline.passed()) return Errc::timeout;
    nap(deadline);
  }
}

Errc Outpost::wait_until_readable(Location home, const Deadline& deadline) noexcept {
  for (;;) {
    tend();
    if (keeper_gone()) return Errc::fenced;
    const Errc state = state_of(home);
    if (state != Errc::disconnected) return state;
    if (deadline.passed()) return Errc::timeout;
    nap(deadline);
  }
}

Errc Outpost::wait_for_frames(std::uint32_t count, const Deadline& deadline) noexcept {
  for (;;) {
    if (at_hand() >= count) return Errc::ok;
    tend_for(count);
    if (at_hand() >= count) return Errc::ok;
    if (keeper_gone()) return Errc::fenced;
    if (deadline.passed()) {
      return refused_.load(std::memory_order_acquire) ? why_refused_.load(std::memory_order_relaxed) : Errc::timeout;
    }
    nap(deadline);
  }
}

Errc connect_keeper(std::string_view name, Fd* socket) noexcept {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (name.size() < 2 || name.size() >= sizeof address.sun_path) return Errc::invalid;
  std::memcpy(address.sun_path, name.data(), name.size());
  const bool abstract = name.front() == '@';
  if (abstract) address.sun_path[0] = '\0';
  Fd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!fd) return Errc::io;
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size() + (abstract ? 0 : 1));
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0) return Errc::io;
  *socket = std::move(fd);
  return Errc::ok;
}

}  // namespace comex
