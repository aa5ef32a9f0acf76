// The budget is that of the whole tree of processes, as the kernel counts their memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "cli/test_folder.h"
#include "support/process.h"
#include "support/program.h"

#ifdef COMEX_RUN_LIBRARY

namespace comex::test {
namespace {

constexpr std::uint64_t kMebi = 1 << 20;

std::uint64_t private_bytes(pid_t pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  const std::string name = "RssAnon:";
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(name)) return std::stoull(line.substr(name.size())) << 10;
  }
  return 0;  // it has ended
}

// The most that the tree had, but for moments: its processes are looked at one after the other.
std::uint64_t most_while_it_runs(Process& process, const std::string& variable) {
  std::uint64_t most = 0;
  std::uint64_t last[2] = {};
  while (!process.wait(Millis(1))) {
    std::uint64_t sum = 0;
    for (const pid_t pid : tree_of(variable)) sum += private_bytes(pid);
    most = std::max(most, std::min({last[0], last[1], sum}));
    last[0] = std::exchange(last[1], sum);
  }
  return most;
}

TEST(RunBudget, of_a_tree_of_processes_is_kept) {
  const TestFolder folder;
  const std::string load = COMEX_PAGING_LOAD " --set 144M --pass random-write --pass sequential";
  Process process(
      {COMEX_BINARY, "run", "--at-once", "--local", "128M", "--", "/bin/sh", "-c", load + " & " + load + " & wait"},
      folder.path("."));
  std::string variable;
  ASSERT_TRUE(wait_until([&] { return !(variable = run_variable(process.pid())).empty(); })) << process.errors();
  const std::uint64_t most = most_while_it_runs(process, variable);
  EXPECT_EQ(process.wait(), 0) << process.errors();
  EXPECT_LE(most, (128 + 16) * kMebi) << "2 % or 16 MiB, whichever is more";
  EXPECT_GT(most, 96 * kMebi) << "what may stay is used";
}

// However a program comes by its memory.
TEST(RunBudget, of_small_and_unusual_mappings_is_kept) {
  const TestFolder folder;
  const auto script = folder.file("maps.py", R"(
import ctypes, sys, time
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = libc.mremap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.mremap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int]
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
NONE, READ, WRITE, ANYWHERE, THERE = 0, 1, 3, 0x22, 0x32
all, piece, pieces = 64 << 20, 32 << 10, []
def anonymous(address, size, rights, flags):
    at = libc.mmap(address, size, rights, flags, -1, 0)
    pieces.append((at, size))
    return at
def fill(how):
    if how == 'small':
        for i in range(all // piece): anonymous(None, piece, WRITE, ANYWHERE)
    elif how == 'grown':
        anonymous(None, piece, WRITE, ANYWHERE)
        ctypes.memset(pieces[0][0], 77, piece)
        pieces[0] = (libc.mremap(pieces[0][0], piece, all, 1), all)
        assert ctypes.string_at(pieces[0][0], piece) == bytes([77]) * piece
    elif how == 'committed':
        at = libc.mmap(None, all, NONE, ANYWHERE, -1, 0)
        for i in range(0, all, piece): anonymous(at + i, piece, WRITE, THERE)
    elif how == 'opened':
        anonymous(None, all, READ, ANYWHERE)
        libc.mprotect(pieces[0][0], all, WRITE)
fill(sys.argv[1])
for round in range(2):
    for at, size in pieces:
        for i in range(0, size, 4096): ctypes.c_uint64.from_address(at + i).value = at + i + round
wrong = sum(ctypes.c_uint64.from_address(at + i).value != at + i + 1 for at, size in pieces for i in range(0, size, 4096))
def here():
    for line in open('/proc/self/status'):
        if line.startswith('RssAnon'): return int(line.split()[1])
until = time.monotonic() + 10
while here() > 48 << 10 and time.monotonic() < until: time.sleep(0.01)
print('wrong', wrong, 'within', here() <= 48 << 10)
)");
  for (const char* how : {"small", "grown", "committed", "opened"}) {
    for (const bool at_once : {true, false}) {
      std::vector<std::string> words{"run", "--local", "32M", "--", "/usr/bin/python3", script, how};
      if (at_once) words.insert(words.begin() + 1, "--at-once");
      const Outcome outcome = run_comex(words, folder.path("."));
      EXPECT_EQ(outcome.code, 0) << how << ": " << outcome.errors;
      EXPECT_EQ(outcome.output, "wrong 0 within True\n") << how << ": " << outcome.errors;
    }
  }
}

// More than there once was room for: a child must have them all.
TEST(RunBudget, of_very_many_mappings) {
  const TestFolder folder;
  const auto script = folder.file("many.py", R"(
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
step, pieces = 3 * 4096, []
base = libc.mmap(None, 12_000 * step, 0, 0x22, -1, 0)
for i in range(12_000):
    pieces.append(libc.mmap(base + i * step, 4096, 3, 0x32, -1, 0))
    ctypes.c_uint64.from_address(pieces[-1]).value = i + 1
def wrong(): return sum(ctypes.c_uint64.from_address(at).value != i + 1 for i, at in enumerate(pieces))
here = wrong()
pid = os.fork()
if pid == 0: os._exit(min(wrong(), 99))
there = os.waitpid(pid, 0)[1]
for at in pieces: libc.madvise(at, 4096, 4)
print('wrong', here, there, 'left', sum(ctypes.c_uint64.from_address(at).value != 0 for at in pieces))
)");
  const Outcome outcome =
      run_comex({"run", "--at-once", "--local", "24M", "--", "/usr/bin/python3", script}, folder.path("."));
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_EQ(outcome.output, "wrong 0 0 left 0\n") << outcome.errors;
}

}  // namespace
}  // namespace comex::test

#endif
