// Two runs of one program in one profile. A page faults only if it is away, and which are is another matter in each
// run: so each run shows a part of what the program does, and together they show more.
//
// Thread safety: functions without state.
#pragma once

#include "trace/profile.h"

namespace comex {

// What is in `now` and not in `before` is put where `now` was at that moment, as far as it can be followed
// (pager/prefetch/follower.h); a thread that cannot is added as it is. Processes are of the same program if they say
// so; others of `now` are added, as far as there is room.
Profile merge(Profile before, const Profile& now);

}  // namespace comex
