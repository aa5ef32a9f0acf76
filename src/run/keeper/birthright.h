// What a keeper has from the moment it is born (run/keeper/keeper_options.h), and how it waits until it is needed.
//
// Thread safety: none; belongs to the main thread.
#pragma once

#include "base/expected.h"
#include "base/fd.h"
#include "run/keeper/census.h"
#include "run/keeper/keeper_options.h"
#include "run/room.h"

namespace comex {

inline constexpr int kKeeperPriority = -10;  // processes wait for the keeper, not the other way round
inline constexpr Millis kCensusEvery{100};   // how often accounts of the dead are looked for

struct Birthright {
  Fd listener{number_of(KeeperFile::listener)};
  Fd room{number_of(KeeperFile::room)};
  Fd program{number_of(KeeperFile::program)};
  Fd report{number_of(KeeperFile::report)};
  Fd options{number_of(KeeperFile::options)};
  Fd stats;
  Fd trace;
  Fd done;

  static Birthright take();
  [[nodiscard]] Expected<KeeperOptions> read_options() const;
  [[nodiscard]] bool is_traced(const KeeperOptions& by) const { return trace || !by.profile.empty(); }
  // With the rings behind it, if it is traced.
  [[nodiscard]] Expected<Room*> map_room(bool traced) const;
  // Nothing is begun before somebody comes in: most programs never need it. False if the program, and all that came
  // from it, is over.
  [[nodiscard]] bool wait_for_need(Census& census) const;
};

}  // namespace comex
