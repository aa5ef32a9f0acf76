#include "run/keeper/lane_relay.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <array>

#include "run/keeper/desk_clerk.h"

namespace comex {
namespace {

// Of a size that the process cannot change under us.
Expected<Fd> make_desk() {
  Fd memory(::memfd_create("comex-lane", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory || ::ftruncate(memory.get(), sizeof(LaneDesk)) != 0 ||
      ::fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return system_error("cannot get memory for a lane");
  }
  return memory;
}

}  // namespace

LaneRelay::~LaneRelay() {
  const std::lock_guard lock(mutex_);
  for (Lane& lane : lanes_) ::shutdown(lane.socket.get(), SHUT_RDWR);
  for (Lane& lane : lanes_) lane.thread.join();
}

Expected<LaneRelay::End> LaneRelay::open(NodeId node, std::uint64_t link) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return system_error("cannot make a lane: raise the limit of open files (ulimit -n)");
  }
  Fd ours(ends[0]);
  Fd theirs(ends[1]);
  auto desk = make_desk();
  if (!desk) return std::move(desk).error();
  const std::lock_guard lock(mutex_);
  bury_dead();
  Lane& lane = lanes_.emplace_back();
  lane.socket = std::move(ours);
  lane.memory = desk->duplicate();
  lane.node = node;
  lane.link = link;
  lane.thread = std::thread([this, &lane] { serve(lane); });
  return End{std::move(theirs), *std::move(desk)};
}

void LaneRelay::bury_dead() {
  lanes_.remove_if([](Lane& lane) {
    if (!lane.over.load()) return false;
    lane.thread.join();
    return true;
  });
}

void LaneRelay::serve(Lane& lane) {
  void* const at = ::mmap(nullptr, sizeof(LaneDesk), PROT_READ | PROT_WRITE, MAP_SHARED, lane.memory.get(), 0);
  if (at != MAP_FAILED) {
    auto& desk = *static_cast<LaneDesk*>(at);
    DeskClerk(pool_, docks_, lane.node, lane.link, desk, lane.socket.get()).serve();
    desk.over.store(1);
    ::munmap(at, sizeof(LaneDesk));
  } else {
    spdlog::warn("no memory for a lane");
  }
  // Whoever waits at the other end sees it end only now. The descriptor itself stays until the thread is joined.
  ::shutdown(lane.socket.get(), SHUT_RDWR);
  lane.over.store(true);
}

}  // namespace comex
