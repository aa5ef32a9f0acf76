// `comex run` as a user meets it: programs that check what they wrote, with less local memory than they need.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "support/node.h"
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

class RunTest : public testing::TestWithParam<How> {
 protected:
  void SetUp() override {
    node_.emplace(
        start_node({"--listen", "127.0.0.1:0", "--socket", folder_.path("node.sock")}, folder_.path("."), "512M"));
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
  void expect_same(const std::string& local, const std::vector<std::string>& program) {
    const Outcome outcome = run(local, program);
    EXPECT_EQ(outcome.code, 0) << outcome.errors;
    Process native(program, folder_.path("."));
    EXPECT_EQ(outcome.output, native.read_all()) << outcome.errors;
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
  for (const char* evict : {"clock", "2q"}) {
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

// The gate blocks signals while it works.
TEST_P(RunTest, a_program_that_is_executed_begins_with_the_mask_of_its_caller) {
  expect_same("16M", {"/bin/sh", "-c", "exec grep SigBlk /proc/self/status"});
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

TEST_P(RunTest, the_exit_code_is_the_programs) {
  EXPECT_EQ(run("16M", {"/bin/sh", "-c", "exit 42"}).code, 42);
  EXPECT_EQ(run("16M", {"/does/not/exist"}).code, 127);
  EXPECT_EQ(run("16M", {"/etc/passwd"}).code, 126);
  EXPECT_EQ(run("nonsense", {"/bin/true"}).code, 2);
}

}  // namespace
}  // namespace comex::test

#endif
