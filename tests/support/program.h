// What a test wants to know of a program under `comex run`: its keeper, its processes, what is left of them.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace comex::test {

// COMEX_RUN of a process, which all of its tree have in common; empty if it is not one of a program under comex.
std::string run_variable(pid_t pid);
pid_t keeper_of(const std::string& variable);
// Processes that are there and are no zombies.
std::vector<pid_t> tree_of(const std::string& variable);
bool is_there(pid_t pid);
// Nothing of that program is left: no process, no keeper, no socket.
bool nothing_left_soon(const std::string& variable);

}  // namespace comex::test
