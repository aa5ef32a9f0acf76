// What the kernel may write to on its own, because it was told so while the program was dormant, must not be paged out
// where nothing says what that is: on kernels that cannot move pages (before 6.8).
#include <gtest/gtest.h>

#include "cli/test_folder.h"
#include "support/process.h"

#ifdef COMEX_RUN_LIBRARY

namespace comex::test {
namespace {

// A buffer that is registered with io_uring, and a read into it that ends when the program has long been awake.
constexpr const char* kReader = R"(
import ctypes, mmap, os, struct, time
libc = ctypes.CDLL(None, use_errno=True)
told = ctypes.create_string_buffer(120)
ring = libc.syscall(425, 4, told)
def at(offset): return struct.unpack_from('I', told, offset)[0]
tail, array, entries, done = at(44), at(64), at(0), at(84)
queue = mmap.mmap(ring, max(array + 4 * entries, at(100) + 16 * at(4)), mmap.MAP_SHARED)
requests = mmap.mmap(ring, 64 * entries, mmap.MAP_SHARED, offset=0x10000000)
buffer = mmap.mmap(-1, 4 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
buffer[:] = b'-' * len(buffer)
address = ctypes.addressof(ctypes.c_char.from_buffer(buffer))
known = libc.syscall(427, ring, 0, struct.pack('QQ', address, 65536), 1)
end, far_end = os.pipe()
struct.pack_into('<BBHiQQI', requests, 0, 4, 0, 0, end, 2**64 - 1, address, 4096)
struct.pack_into('I', queue, array, 0)
struct.pack_into('I', queue, tail, 1)
began = libc.syscall(426, ring, 1, 0, 0, 0, 0)
data = bytearray(48 << 20)
def touch():
    for i in range(0, len(data), 4096): data[i] = (data[i] + 1) % 256
until = time.monotonic() + 20
while len(os.listdir('/proc/self/task')) == 1 and time.monotonic() < until: touch()
awake = len(os.listdir('/proc/self/task')) > 1
for i in range(3): touch()
os.write(far_end, b'*' * 4096)
while struct.unpack_from('I', queue, done)[0] == 0 and time.monotonic() < until: touch()
print('registered', known, 'began', began, 'awake', awake, 'came', buffer[:4096].count(b'*'))
)";

TEST(RunHeld, what_io_uring_was_told_of) {
  const TestFolder folder;
  const auto script = folder.file("reader.py", kReader);
  for (const bool old : {false, true}) {
    std::vector<std::string> words{"run", "--local", "16M"};
    if (old) words.emplace_back("--old-kernel");
    words.insert(words.end(), {"--", "/usr/bin/python3", script});
    const Outcome outcome = run_comex(words, folder.path("."));
    EXPECT_EQ(outcome.code, 0) << outcome.errors;
    EXPECT_EQ(outcome.output, "registered 0 began 1 awake True came 4096\n") << outcome.errors;
    EXPECT_EQ(outcome.errors.find("stays here: io_uring") != std::string::npos, old) << outcome.errors;
  }
}

}  // namespace
}  // namespace comex::test

#endif
