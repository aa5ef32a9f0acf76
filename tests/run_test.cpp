// `comex run` as a user meets it: programs that check what they wrote, with less local memory than they need.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include <nlohmann/json.hpp>

#include "support/node.h"
#include "support/own_address.h"
#include "support/pages.h"
#include "support/process.h"
#include "support/wait.h"

#ifdef COMEX_RUN_LIBRARY

namespace comex::test {
namespace {

struct How {
  Over over;
  const char* faults;

  friend std::ostream& operator<<(std::ostream& to, const How& how) { return to << how.over << '_' << how.faults; }
};

// For scripts, whose memory is 48 MB: until some of it has left, as `status` says, a descriptor of the thread's own. A
// dormant process is woken when its time has come, and may be done with all its work before.
const std::string kPaged = R"(
import os, time
def open_status(): return os.open('/proc/thread-self/status', os.O_RDONLY)
def paged(status):
    until = time.monotonic() + 15
    while time.monotonic() < until:
        said = os.pread(status, 4096, 0).split()
        if int(said[said.index(b'RssAnon:') + 1]) < 40_000: return True
        time.sleep(0.001)
    return False
)";

class RunTest : public testing::TestWithParam<How> {
 protected:
  void SetUp() override {
    node_.emplace(
        start_node({"--listen", own_listen(), "--socket", folder_.path("node.sock")}, folder_.path("."), "512M"));
    url_ = GetParam().over == Over::shm ? node_->shm->text() : node_->tcp->text();
  }
  Outcome run(const std::string& local, const std::vector<std::string>& program,
              const std::vector<std::string>& options = {}) {
    std::vector<std::string> arguments{"run", "--local", local, "--pool", url_, "--faults", GetParam().faults};
    arguments.insert(arguments.end(), options.begin(), options.end());
    arguments.emplace_back("--");
    arguments.insert(arguments.end(), program.begin(), program.end());
    return run_comex(arguments, folder_.path("."));
  }
  // The same output as natively.
  void expect_same(const std::string& local, const std::vector<std::string>& program,
                   const std::vector<std::string>& options = {}) {
    const Outcome outcome = run(local, program, options);
    EXPECT_EQ(outcome.code, 0) << outcome.errors;
    Process native(program, folder_.path("."));
    EXPECT_EQ(outcome.output, native.read_all()) << outcome.errors;
  }
  // Dormant at first, and awake from its start. `within`: it has to keep to its budget.
  void expect_both_ways(const std::string& script, const std::string& says, bool within = true) {
    for (const std::vector<std::string>& options : {std::vector<std::string>{}, {"--at-once"}}) {
      auto all = options;
      all.insert(all.end(), {"--stats", folder_.path("stats.json")});
      const Outcome outcome = run("16M", {"/usr/bin/python3", script}, all);
      if (outcome.output == "no right\n") GTEST_SKIP() << "for want of a right that it asks for";
      EXPECT_EQ(outcome.code, 0) << outcome.errors;
      EXPECT_EQ(outcome.output, says) << outcome.errors;
      std::ifstream stats(folder_.path("stats.json"));
      if (within) {
        EXPECT_GT(nlohmann::json::parse(stats)["faults"]["from_node"], 0) << outcome.errors;
      }
    }
  }
  bool all_frames_come_back() {
    return wait_until([&] {
      const Outcome status = run_comex({"status", "--pool", url_, "--json"}, folder_.path("."));
      return status.output.find("\"used_bytes\": 0,") != std::string::npos;
    });
  }

  TestFolder folder_;
  std::optional<NodeProcess> node_;
  std::string url_;
};

INSTANTIATE_TEST_SUITE_P(How, RunTest,
                         testing::Values(How{Over::shm, "inline"}, How{Over::tcp, "inline"}, How{Over::shm, "message"},
                                         How{Over::tcp, "message"}),
                         testing::PrintToStringParamName());

TEST_P(RunTest, a_checking_program_four_times_its_budget) {
  for (const char* threads : {"1", "2"}) {
    const Outcome outcome = run("16M", {COMEX_PAGING_LOAD, "--set", "64M", "--threads", threads, "--pass", "sequential",
                                        "--pass", "stride10", "--pass", "random", "--pass", "random-write"});
    EXPECT_EQ(outcome.code, 0) << outcome.errors;
    EXPECT_NE(outcome.output.find("\"pages_wrong\":0"), std::string::npos) << outcome.output;
  }
  EXPECT_TRUE(all_frames_come_back());
}

TEST_P(RunTest, a_checking_program_with_each_prefetcher) {
  for (const char* prefetch : {"none", "stride", "readahead", "leap"}) {
    const Outcome outcome = run("16M",
                                {COMEX_PAGING_LOAD, "--set", "48M", "--threads", "2", "--pass", "sequential", "--pass",
                                 "stride10", "--pass", "random-write"},
                                {"--prefetch", prefetch});
    EXPECT_EQ(outcome.code, 0) << prefetch << ": " << outcome.errors;
    EXPECT_NE(outcome.output.find("\"pages_wrong\":0"), std::string::npos) << prefetch << ": " << outcome.output;
  }
  EXPECT_TRUE(all_frames_come_back());
}

TEST_P(RunTest, a_checking_program_with_each_eviction_policy) {
  for (const char* evict : {"clock", "fifo"}) {
    const Outcome outcome = run("16M",
                                {COMEX_PAGING_LOAD, "--set", "32M", "--threads", "2", "--pass", "sequential", "--pass",
                                 "random", "--pass", "random-write"},
                                {"--evict", evict});
    EXPECT_EQ(outcome.code, 0) << evict << ": " << outcome.errors;
    EXPECT_NE(outcome.output.find("\"pages_wrong\":0"), std::string::npos) << evict << ": " << outcome.output;
  }
  EXPECT_TRUE(all_frames_come_back());
}

// It is dormant at first, and woken while its threads wait.
TEST_P(RunTest, a_process_is_woken_and_its_system_calls_do_not_notice) {
  const Outcome outcome = run("16M", {COMEX_WAKE_LOAD, "64", "32"});
  EXPECT_EQ(outcome.output, "0 wrong\n") << outcome.errors;
  EXPECT_EQ(outcome.code, 0);
}

// By system calls that libc does not see, as the runtime of Go makes them. Nobody watches them in a dormant process.
TEST_P(RunTest, a_process_that_has_taken_the_signal_for_itself_is_woken) {
  for (const char* what : {"handler", "ignored", "default"}) {
    const Outcome outcome = run("16M", {COMEX_WAKE_SIGNAL, "64", what, "32"});
    EXPECT_EQ(outcome.output, "0 wrong\n") << what << outcome.errors;
    EXPECT_EQ(outcome.code, 0) << what;
  }
}

TEST_P(RunTest, the_signal_by_which_processes_are_woken_ends_one_that_is_sent_it) {
  EXPECT_EQ(run("16M", {"/bin/sh", "-c", "kill -SYS $$; echo not here"}).code, 128 + SIGSYS);
}

// posix_spawn puts the actions of the child, which shares the program's memory, back to the default.
TEST_P(RunTest, a_program_that_starts_another_keeps_its_handlers) {
  const auto script = folder_.file("spawn.py", R"(
import os, signal
data = bytearray(32_000_000)
for i in range(0, len(data), 4096): data[i] = 1
signal.signal(signal.SIGUSR1, lambda *_: print('handled', flush=True))
print(os.system('true'), flush=True)
os.kill(os.getpid(), signal.SIGUSR1)
print('end')
)");
  expect_same("16M", {"/usr/bin/python3", script});
}

// Its operator new is its own, and the heap's: were it ours, each would have a page that never leaves.
TEST_P(RunTest, a_program_with_objects_of_cpp) {
  const Outcome outcome = run("16M", {COMEX_MEMORY_LOAD, "objects", "48"}, {"--at-once"});
  long here = -1;
  std::size_t wrong = 1;
  ASSERT_EQ(std::sscanf(outcome.output.c_str(), "here: %ld wrong: %zu", &here, &wrong), 2)
      << outcome.output << outcome.errors;
  EXPECT_EQ(wrong, 0U);
  EXPECT_LT(here, 32);
}

// Lanes that come later are not in its table, and what came to its table would be nobody else's.
TEST_P(RunTest, a_task_with_the_memory_and_descriptors_of_its_own) {
  for (const char* how : {"cloned", "unshared"}) {
    for (const std::vector<std::string>& options : {std::vector<std::string>{}, {"--at-once"}}) {
      const Outcome outcome = run("16M", {COMEX_MEMORY_LOAD, how, "48"}, options);
      EXPECT_EQ(outcome.code, 0) << how << outcome.errors;
      EXPECT_EQ(outcome.output, "wrong: 0\n") << how << outcome.errors;
    }
  }
  EXPECT_TRUE(all_frames_come_back());
}

TEST_P(RunTest, a_shell_with_pipes_and_children) {
  expect_same("16M", {"/bin/sh", "-c",
                      "seq 1 50000 | sort -n -r | head -3; x=$(echo sub); echo $x; (exit 3); echo $?; "
                      "for i in 1 2 3; do (echo child $i) & wait; done"});
  EXPECT_TRUE(all_frames_come_back());
}

TEST_P(RunTest, python_forks_and_every_copy_is_right) {
  const auto script = folder_.file("fork.py", R"(
import os
data = bytearray(48_000_000)
for i in range(0, len(data), 4096): data[i] = i // 4096 % 251
def wrong(): return sum(data[i] != i // 4096 % 251 for i in range(0, len(data), 4096))
def child(depth):
    bad = wrong()
    if depth > 0:
        pid = os.fork()
        if pid == 0: os._exit(child(depth - 1))
        bad += os.waitpid(pid, 0)[1]
    for i in range(0, len(data), 8192): data[i] = depth
    bad += sum(data[i] != depth for i in range(0, len(data), 8192))
    return 1 if bad else 0
pid = os.fork()
if pid == 0: os._exit(child(2))
print('child', os.waitpid(pid, 0)[1], 'wrong', wrong())
)");
  const Outcome outcome = run("16M", {"/usr/bin/python3", script});
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_EQ(outcome.output, "child 0 wrong 0\n") << outcome.errors;
  EXPECT_TRUE(all_frames_come_back());
}

TEST_P(RunTest, a_thread_waits_for_a_page_while_another_forks) {
  const auto script = folder_.file("threads.py", R"(
import os, threading
data = bytearray(32_000_000)
for i in range(0, len(data), 4096): data[i] = i // 4096 % 251
def wrong(): return sum(data[i] != i // 4096 % 251 for i in range(0, len(data), 4096))
found, done = [], threading.Event()
def look():
    while not done.is_set(): found.append(wrong())
    found.append(wrong())
threads = [threading.Thread(target=look) for _ in range(2)]
for thread in threads: thread.start()
codes = []
for i in range(10):
    pid = os.fork()
    if pid == 0: os._exit(sum(data[i] != i // 4096 % 251 for i in range(0, len(data), 65536)))
    codes.append(os.waitpid(pid, 0)[1])
done.set()
for thread in threads: thread.join()
print('children', sum(codes), 'wrong', sum(found))
)");
  const Outcome outcome = run("16M", {"/usr/bin/python3", script});
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_EQ(outcome.output, "children 0 wrong 0\n") << outcome.errors;
}

// The kernel knows a process by its first thread, and says of one that has ended that it has no memory.
TEST_P(RunTest, the_first_thread_has_ended) {
  const auto script = folder_.file("alone.py", kPaged + R"(
import ctypes, os, threading, time
def alone():
    with open('/proc/self/stat') as file: return file.read().rpartition(')')[2].split()[0] == 'Z'
def work():
    for look in range(10_000):
        if alone(): break
        time.sleep(0.001)
    data = bytearray(48_000_000)
    for i in range(0, len(data), 4096): data[i] = i // 4096 % 251
    paged(open_status())
    with open('/dev/zero', 'rb') as file: got = len(file.read(20_000_000))
    pid = os.fork()
    wrong = sum(data[i] != i // 4096 % 251 for i in range(0, len(data), 4096))
    if pid == 0: os._exit(min(wrong, 100))
    print(got, 'child', os.waitpid(pid, 0)[1], 'wrong', wrong, flush=True)
    os._exit(0)
threading.Thread(target=work).start()
ctypes.CDLL(None).syscall(60, 0)
)");
  expect_both_ways(script, "20000000 child 0 wrong 0\n");
}

// As daemons do. Who is not dumpable any more may read little of its own /proc, and has no right to faults as messages.
TEST_P(RunTest, a_program_gives_up_its_rights) {
  if (geteuid() != 0) GTEST_SKIP() << "it has none to give up";
  const auto script = folder_.file("rights.py", kPaged + R"(
os.setgroups([]); os.setgid(65534); os.setuid(65534)
data = bytearray(48_000_000)
for i in range(0, len(data), 4096): data[i] = i // 4096 % 251
paged(open_status())
pid = os.fork()
wrong = sum(data[i] != i // 4096 % 251 for i in range(0, len(data), 4096))
if pid == 0: os._exit(min(wrong, 100))
print('child', os.waitpid(pid, 0)[1], 'wrong', wrong)
)");
  expect_both_ways(script, "child 0 wrong 0\n");
}

// Its children have other numbers there than the keeper knows them by, and itself gets no threads any more.
TEST_P(RunTest, children_in_a_pid_namespace) {
  const auto script = folder_.file("space.py", R"(
import ctypes, os, sys
if ctypes.CDLL(None).unshare(0x20000000) != 0: print('no right'); sys.exit()
def touch():
    data = bytearray(48_000_000)
    for i in range(0, len(data), 4096): data[i] = i // 4096 % 251
    return data
def wrong(data): return sum(data[i] != i // 4096 % 251 for i in range(0, len(data), 4096))
data = bytearray(8_000_000)
if sys.argv[1] == 'large': data = touch()
first = os.fork()
if first == 0:
    data = touch()
    second = os.fork()
    bad = wrong(data)
    if second == 0: os._exit(min(bad, 100))
    os._exit(min(bad, 100) if os.waitpid(second, 0)[1] == 0 and os.getpid() == 1 else 101)
print(os.waitpid(first, 0)[1], wrong(data) if sys.argv[1] == 'large' else 0)
)");
  struct Way {
    const char* size;  // of what it has before there is a child
    std::vector<std::string> options;
  };
  for (const auto& [size, options] : {Way{"small", {}}, Way{"large", {}}, Way{"large", {"--at-once"}}}) {
    const Outcome outcome = run("16M", {"/usr/bin/python3", script, size}, options);
    if (outcome.output == "no right\n") GTEST_SKIP() << "for want of the right to make a namespace";
    EXPECT_EQ(outcome.code, 0) << outcome.errors;
    EXPECT_EQ(outcome.output, "0 0\n") << outcome.errors;
    EXPECT_TRUE(all_frames_come_back()) << "the keeper waits for a stranger";
  }
}

// Threads of the runtime's that would serve it as messages are not to be had there.
TEST_P(RunTest, io_uring_where_there_are_no_more_threads) {
  const auto script = folder_.file("nowhere.py", kPaged + R"(
import ctypes, errno, sys
libc = ctypes.CDLL(None, use_errno=True)
data = bytearray(48_000_000)
for i in range(0, len(data), 4096): data[i] = i // 4096 % 251
paged(open_status())
if libc.unshare(0x20000000) != 0: print('no right'); sys.exit()
for i in range(3):
    if libc.syscall(425, 4, ctypes.create_string_buffer(120)) < 0 and ctypes.get_errno() != errno.ENOSYS: print('failed')
print(sum(data[i] != i // 4096 % 251 for i in range(0, len(data), 4096)))
)");
  expect_both_ways(script, "0\n");
}

// The keeper is not to be found from there: who is dormant is left alone, and who is awake, or the child of such a one,
// has a connection. Who begins there is left alone.
TEST_P(RunTest, a_program_in_another_network) {
  const auto script = folder_.file("network.py", R"(
import ctypes, os, subprocess, sys
if len(sys.argv) == 1 and ctypes.CDLL(None).unshare(0x40000000) != 0: print('no right'); sys.exit()
data = bytearray(48_000_000)
for i in range(0, len(data), 4096): data[i] = i // 4096 % 251
def wrong(): return sum(data[i] != i // 4096 % 251 for i in range(0, len(data), 4096))
pid = os.fork()
if pid == 0: os._exit(min(wrong(), 100))
if len(sys.argv) == 1: subprocess.run([sys.executable, __file__, 'there'])
print('child', os.waitpid(pid, 0)[1], 'wrong', wrong())
)");
  expect_both_ways(script, "child 0 wrong 0\nchild 0 wrong 0\n", false);
}

// It is awake, and most of its memory is away, when it goes there.
TEST_P(RunTest, a_program_that_is_awake_goes_to_another_network) {
  const auto script = folder_.file("leaves.py", kPaged + R"(
import ctypes, sys
data = bytearray(48_000_000)
for i in range(0, len(data), 4096): data[i] = i // 4096 % 251
def wrong(): return sum(data[i] != i // 4096 % 251 for i in range(0, len(data), 4096))
paged(open_status())
if ctypes.CDLL(None).unshare(0x40000000) != 0: print('no right'); sys.exit()
pid = os.fork()
if pid == 0:
    bad = wrong()
    second = os.fork()
    if second == 0: os._exit(min(wrong(), 100))
    os._exit(min(bad + os.waitpid(second, 0)[1], 100))
print('child', os.waitpid(pid, 0)[1], 'wrong', wrong())
)");
  expect_both_ways(script, "child 0 wrong 0\n");
}

// Generators of random numbers do not want to have the same future in both.
TEST_P(RunTest, memory_that_a_child_finds_empty) {
  const auto script = folder_.file("wipe.py", R"(
import mmap, os
secret = mmap.mmap(-1, 4 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
secret[:] = b'x' * len(secret)
secret.madvise(18)  # MADV_WIPEONFORK
data = bytearray(b'y') * 48_000_000
pid = os.fork()
if pid == 0: os._exit(0 if secret[:].count(0) == len(secret) and data.count(b'y') == len(data) else 1)
print('child', os.waitpid(pid, 0)[1], secret[:].count(b'x') == len(secret), data.count(b'y') == len(data))
)");
  expect_both_ways(script, "child 0 True True\n");
}

// Most of what is the runtime's is addresses, of which the kernel would make memory: 16 GiB, should this ever fail.
TEST_P(RunTest, a_program_locks_all_its_memory) {
  const auto script = folder_.file("lock.py", kPaged + R"(
import ctypes, sys
libc = ctypes.CDLL(None)
def kilobytes(name): return int(next(l for l in open('/proc/self/status') if l.startswith(name)).split()[1])
if libc.mlockall(3) != 0: print('no right'); sys.exit()
held = bytearray(4_000_000)
print(kilobytes('VmLck') > 4000, kilobytes('VmRSS') < 500_000)
libc.munlockall()
data = bytearray(48_000_000)
for i in range(0, len(data), 4096): data[i] = i // 4096 % 251
print(paged(open_status()), sum(data[i] != i // 4096 % 251 for i in range(0, len(data), 4096)))
)");
  expect_both_ways(script, "True True\nTrue 0\n");
}

// All memory that comes after the call is locked, which a process that was dormant then has to find out.
TEST_P(RunTest, a_program_has_locked_what_it_will_have) {
  for (const char* flags : {"2", "3"}) {
    const auto script = folder_.file("later.py", std::string("flags = ") + flags + R"(
import ctypes, mmap, os, sys, time
if ctypes.CDLL(None).mlockall(flags) != 0: print('no right'); sys.exit()
def touch(pieces):
    made = [mmap.mmap(-1, 1 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) for i in range(pieces)]
    for piece in made:
        for i in range(0, len(piece), 4096): piece[i] = i // 4096 % 251
    return made
def wrong(pieces): return sum(piece[i] != i // 4096 % 251 for piece in pieces for i in range(0, len(piece), 4096))
first = touch(24)
until = time.monotonic() + 15
while len(os.listdir('/proc/self/task')) < 2 and time.monotonic() < until: time.sleep(0.001)
second = touch(24)
print(wrong(first), wrong(second), wrong(first), wrong(second))
)");
    expect_both_ways(script, "0 0 0 0\n", false);
  }
}

// It goes on unwatched, and has the runtime's addresses from its parent.
TEST_P(RunTest, a_child_that_the_keeper_cannot_know_locks_all_its_memory) {
  const auto script = folder_.file("unknown.py", R"(
import ctypes, os, sys
libc = ctypes.CDLL(None)
# Namespaces of PIDs and of mounts, and a /proc that is not the one it began with.
if libc.unshare(0x20020000) != 0 or libc.mount(None, b'/', None, 0x44000, None) != 0: print('no right'); sys.exit()
if libc.mount(b'proc', b'/proc', b'proc', 0, None) != 0: print('no right'); sys.exit()
pid = os.fork()
if pid == 0:
    if libc.mlockall(1) != 0: os._exit(1)
    size = int(next(l for l in open('/proc/self/status') if l.startswith('VmRSS')).split()[1])
    os._exit(0 if size < 500_000 else 2)
print(os.waitpid(pid, 0)[1])
)");
  const Outcome outcome = run("16M", {"/usr/bin/python3", script});
  if (outcome.output == "no right\n") GTEST_SKIP() << "for want of the right to make a namespace";
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_EQ(outcome.output, "0\n") << outcome.errors;
}

// What the kernel refuses changes nothing.
TEST_P(RunTest, a_program_may_not_lock_its_memory) {
  const auto script = folder_.file("refused.py", kPaged + R"(
import ctypes, os, resource
status = open_status()
data = bytearray(24_000_000)
for i in range(0, len(data), 4096): data[i] = i // 4096 % 251
print(ctypes.CDLL(None).mlockall(2 | 8))
more = bytearray(24_000_000)
for i in range(0, len(data), 4096): more[i] = i // 4096 % 251
paged(status)
print(ctypes.CDLL(None).mlockall(1 | 8), paged(status))
resource.setrlimit(resource.RLIMIT_MEMLOCK, (1 << 20, 1 << 20))
if os.geteuid() == 0: os.setresuid(65534, 65534, 65534)
address = ctypes.addressof(ctypes.c_char.from_buffer(data))
print(ctypes.CDLL(None).mlock(ctypes.c_void_p(address), ctypes.c_size_t(len(data))), paged(status))
print(sum(data[i] != i // 4096 % 251 or more[i] != data[i] for i in range(0, len(data), 4096)))
)");
  expect_both_ways(script, "-1\n-1 True\n-1 True\n0\n");
}

// There is no room for the runtime in such a process: it does without.
TEST_P(RunTest, a_program_limits_its_addresses) {
  const auto script =
      folder_.file("limited", "#!/bin/sh\nulimit -v 4000000\npython3 -c 'print(sum(bytearray(20_000_000)))'\n", 0755);
  expect_same("16M", {script});
}

// It goes on with what it has, and so must the runtime, which needs descriptors for every process and for new memory.
TEST_P(RunTest, a_program_has_as_many_files_open_as_it_may) {
  const auto script = folder_.file("full.py", kPaged + R"(
import resource, sys
status = open_status()
limit = (100, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
if limit[1] < 2000: print('no right'); sys.exit()
resource.setrlimit(resource.RLIMIT_NOFILE, limit)
try:
    while True: os.dup(0)
except OSError: pass
data = bytearray(48_000_000)
for i in range(0, len(data), 4096): data[i] = i // 4096 % 251
paged(status)
pid = os.fork()
wrong = sum(data[i] != i // 4096 % 251 for i in range(0, len(data), 4096))
same = resource.getrlimit(resource.RLIMIT_NOFILE) == limit
if pid == 0: os._exit(min(wrong, 100) if same else 101)
print('child', os.waitpid(pid, 0)[1], 'wrong', wrong, same)
)");
  expect_both_ways(script, "child 0 wrong 0 True\n");
}

// As daemons do, and Python before it executes a child.
TEST_P(RunTest, a_program_closes_all_descriptors) {
  const auto script = folder_.file("close.py", R"(
import os, subprocess
data = bytearray(48_000_000)
for i in range(0, len(data), 4096): data[i] = i // 4096 % 251
def wrong(): return sum(data[i] != i // 4096 % 251 for i in range(0, len(data), 4096))
said = subprocess.run(['/bin/echo', 'x' * 5000], capture_output=True, close_fds=True).stdout
os.closerange(3, 1000)
for fd in range(3, 1000):
    try: os.dup2(0, fd)
    except OSError: pass
print(len(said), wrong())
)");
  const Outcome outcome = run("16M", {"/usr/bin/python3", script});
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_EQ(outcome.output, "5001 0\n") << outcome.errors;
}

// One process of the program reads and writes all memory of another, most of which is away.
TEST_P(RunTest, a_neighbours_memory) {
  const auto script = folder_.file("neighbour.py", R"(
import ctypes, os, struct, sys, threading
libc = ctypes.CDLL(None, use_errno=True)
class Part(ctypes.Structure): _fields_ = [('base', ctypes.c_void_p), ('length', ctypes.c_size_t)]
size, step = 48 << 20, 1 << 20
if len(sys.argv) > 1:
    data = (ctypes.c_char * size)()
    for i in range(0, size, 4096): struct.pack_into('Q', data, i, i)
    print(ctypes.addressof(data), flush=True)
    waiting = threading.Thread(target=sys.stdin.readline)
    waiting.start()
    waiting.join()
    print(sum(struct.unpack_from('Q', data, i)[0] != i + 1 for i in range(0, size, 4096)), flush=True)
    os._exit(0)
import subprocess
other = subprocess.Popen([sys.executable, __file__, 'other'], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
base, wrong, short = int(other.stdout.readline()), 0, 0
here = (ctypes.c_char * step)()
for at in range(0, size, step):
    mine, theirs = Part(ctypes.addressof(here), step), Part(base + at, step)
    short += libc.process_vm_readv(other.pid, ctypes.byref(mine), 1, ctypes.byref(theirs), 1, 0) != step
    for i in range(0, step, 4096):
        wrong += struct.unpack_from('Q', here, i)[0] != at + i
        struct.pack_into('Q', here, i, at + i + 1)
    short += libc.process_vm_writev(other.pid, ctypes.byref(mine), 1, ctypes.byref(theirs), 1, 0) != step
other.stdin.write(b'go on\n')
other.stdin.flush()
print('short', short, 'wrong', wrong, 'there', int(other.stdout.readline()), 'exit', other.wait())
)");
  const Outcome outcome = run("24M", {"/usr/bin/python3", script});
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_EQ(outcome.output, "short 0 wrong 0 there 0 exit 0\n") << outcome.errors;
}

// Whoever uses io_uring gets his faults as messages, and nobody notices.
TEST_P(RunTest, a_program_begins_to_use_io_uring) {
  const auto script = folder_.file("ring.py", R"(
import ctypes, os, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)
def ring(): return libc.syscall(425, 4, ctypes.create_string_buffer(120)) >= 0 or ctypes.get_errno()
early = ring() if sys.argv[1] == 'early' else True
data = bytearray(32_000_000)
for i in range(0, len(data), 4096): data[i] = i // 4096 % 251
def wrong(): return sum(data[i] != i // 4096 % 251 for i in range(0, len(data), 4096))
found, done = [], threading.Event()
def look():
    while not done.is_set(): found.append(wrong())
threads = [threading.Thread(target=look) for _ in range(2)]
for thread in threads: thread.start()
late = ring() if sys.argv[1] == 'late' else True
pid = os.fork()
if pid == 0: os._exit(wrong() > 0)
child = os.waitpid(pid, 0)[1]
found.append(wrong())
until = time.monotonic() + 20
while (tasks := len(os.listdir('/proc/self/task')) - len(threads)) < 4 and time.monotonic() < until: found.append(wrong())
done.set()
for thread in threads: thread.join()
print(early, late, 'child', child, 'wrong', sum(found), 'tasks', tasks)
)");
  for (const char* when : {"early", "late"}) {
    const Outcome outcome = run("16M", {"/usr/bin/python3", script, when});
    EXPECT_EQ(outcome.code, 0) << outcome.errors;
    EXPECT_EQ(outcome.output, "True True child 0 wrong 0 tasks 4\n") << outcome.errors;
  }
}

// Its threads have been stopped for that, those of the runtime among them. A signal is for its own all the same.
TEST_P(RunTest, a_program_that_uses_io_uring_sends_itself_signals) {
  const auto script = folder_.file("sends.py", R"(
import ctypes, os, signal, sys, threading
came = []
for number in (signal.SIGBUS, signal.SIGSYS): signal.signal(number, lambda number, frame: came.append(number))
done = threading.Event()
threads = [threading.Thread(target=done.wait) for _ in range(2)]
def work():
    ctypes.CDLL(None).syscall(425, 4, ctypes.create_string_buffer(120))
    for i in range(200):
        os.kill(os.getpid(), signal.SIGBUS)
        os.kill(os.getpid(), signal.SIGSYS)
    done.set()
threads.append(threading.Thread(target=work))
for thread in threads: thread.start()
for thread in threads: thread.join()
print(set(came) == {signal.SIGBUS, signal.SIGSYS})
)");
  for (int round = 0; round < 3; ++round) {
    const Outcome outcome = run("16M", {"/usr/bin/python3", script}, {"--at-once"});
    EXPECT_EQ(outcome.code, 0) << outcome.errors;
    EXPECT_EQ(outcome.output, "True\n") << outcome.errors;
  }
}

// The gate blocks signals while it works.
TEST_P(RunTest, a_program_that_is_executed_begins_with_the_mask_of_its_caller) {
  expect_same("16M", {"/bin/sh", "-c", "exec grep SigBlk /proc/self/status"});
}

// Also what must not be blocked while it runs.
TEST_P(RunTest, a_program_begins_with_everything_blocked) {
  expect_same("16M", {"/usr/bin/env", "--block-signal", "grep", "SigBlk", "/proc/self/status"}, {"--at-once"});
}

// The keeper has to open them to be heard.
TEST_P(RunTest, a_program_that_has_everything_blocked_is_woken) {
  const auto script = folder_.file("blocked.py", R"(
import os, signal, threading
ours = {signal.SIGBUS, signal.SIGSYS}
signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
go = threading.Event()
def look():
    go.wait()
    print(len(ours & signal.pthread_sigmask(signal.SIG_BLOCK, [])))
thread = threading.Thread(target=look)
thread.start()
data = bytearray(48_000_000)
for i in range(0, len(data), 4096): data[i] = 1
print(sum(data))
go.set()
thread.join()
print(len(ours & signal.pthread_sigmask(signal.SIG_BLOCK, [])))
for each in sorted(ours):
    os.kill(os.getpid(), each)
    print(signal.sigtimedwait([each], 10).si_signo)
)");
  expect_both_ways(script, "11719\n2\n2\n7\n31\n");
}

TEST_P(RunTest, a_program_ignores_signals_of_comex_and_executes_others) {
  const auto script = folder_.file("ignored.py", R"(
import os, signal, subprocess, sys
turn = int(sys.argv[1]) if len(sys.argv) > 1 else 0
print(turn, [int(signal.getsignal(each) == signal.SIG_IGN) for each in (signal.SIGBUS, signal.SIGSYS)], flush=True)
then = [sys.executable, sys.argv[0], str(turn + 1)]
if turn == 0:
    signal.signal(signal.SIGBUS, signal.SIG_IGN)
    signal.signal(signal.SIGSYS, signal.SIG_IGN)
    os.execv(then[0], then)
if turn == 1:
    os.kill(os.getpid(), signal.SIGBUS)
    os.kill(os.getpid(), signal.SIGSYS)
    os.execve(then[0], then, {})
if turn == 2: sys.exit(subprocess.run(then).returncode)
if turn == 3: os.waitpid(os.posix_spawn(then[0], then, os.environ, setsigdef=[signal.SIGBUS]), 0)
if turn == 4:
    signal.signal(signal.SIGSYS, signal.SIG_DFL)
    os.execv(then[0], then)
)");
  for (const std::vector<std::string>& how : {std::vector<std::string>{}, {"--at-once"}}) {
    const Outcome outcome = run("64M", {"/usr/bin/python3", script}, how);
    EXPECT_EQ(outcome.output, "0 [0, 0]\n1 [1, 1]\n2 [1, 1]\n3 [1, 1]\n4 [0, 1]\n5 [0, 0]\n") << outcome.errors;
  }
}

TEST_P(RunTest, a_clean_environment_does_not_lead_out) {
  const auto expect_ours = [](const Outcome& outcome, const std::string& rest) {
    EXPECT_NE(outcome.output.find("COMEX_RUN="), std::string::npos) << outcome.output << outcome.errors;
    EXPECT_NE(outcome.output.find("libcomex-run.so" + rest), std::string::npos) << outcome.output << outcome.errors;
  };
  expect_ours(run("16M", {"/usr/bin/env", "-i", "/usr/bin/env"}), "\n");
  const std::string other = "/lib/x86_64-linux-gnu/libm.so.6";
  expect_ours(run("16M", {"/usr/bin/env", "-i", "LD_PRELOAD=" + other, "/usr/bin/env"}), ":" + other + "\n");
  const auto script =
      folder_.file("spawn.py", "import os\nos.waitpid(os.posix_spawn('/usr/bin/env', ['env'], {}), 0)\n");
  expect_ours(run("16M", {"/usr/bin/python3", script}), "\n");
  // Statically linked in Debian: nothing can be preloaded, and nothing is put in.
  if (access("/sbin/ldconfig", X_OK) == 0) {
    EXPECT_EQ(run("16M", {"/usr/bin/env", "-i", "/sbin/ldconfig", "-V"}).code, 0);
  }
}

// The number of a keeper that is gone may be another's, and its descriptors are whatever it has open.
TEST_P(RunTest, a_program_whose_keeper_is_somebody_else_writes_nothing_there) {
  const auto script = folder_.file("stranger.py", R"(
import os, subprocess, tempfile
version, name, room = os.environ['COMEX_RUN'].split(' ')
with tempfile.TemporaryFile() as file:
    for fd in (file.fileno(), os.memfd_create('comex-room')):
        os.ftruncate(fd, 64 << 20)
        stranger = dict(os.environ, COMEX_RUN=f'{version} {name} /proc/{os.getpid()}/fd/{fd}')
        code = subprocess.run(['/bin/true'], env=stranger).returncode
        print(code, not any(os.pread(fd, 1 << 20, at).strip(b'\0') for at in range(0, 64 << 20, 1 << 20)))
)");
  const Outcome outcome = run("128M", {"/usr/bin/python3", script});
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_EQ(outcome.output, "0 True\n0 True\n") << outcome.errors;
}

TEST_P(RunTest, the_exit_code_is_the_programs) {
  EXPECT_EQ(run("16M", {"/bin/sh", "-c", "exit 42"}).code, 42);
  EXPECT_EQ(run("16M", {"/does/not/exist"}).code, 127);
  EXPECT_EQ(run("16M", {"/etc/passwd"}).code, 126);
  EXPECT_EQ(run("nonsense", {"/bin/true"}).code, 2);
}

}  // namespace
}  // namespace comex::test

#endif
