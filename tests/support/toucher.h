// A Python program that checks its memory while something happens to the pool.
#pragma once

namespace comex::test {

// Fills so many MiB, then touches pages at random, for reading and for writing, until it is told to end. Says how many
// were wrong and the longest that it had to wait for one, in ms.
inline constexpr const char* kToucher = R"(
import random, select, sys, time
size = int(sys.argv[1]) << 20
pages = size // 4096
data = bytearray(size)
version = [1] * pages
for i in range(pages): data[i * 4096] = (i + 1) % 251
print('filled', flush=True)
wrong = 0
longest = 0
last = time.monotonic()
while not select.select([sys.stdin], [], [], 0)[0]:
    for _ in range(200):
        i = random.randrange(pages)
        wrong += data[i * 4096] != (i + version[i]) % 251
        if i % 2:
            version[i] += 1
            data[i * 4096] = (i + version[i]) % 251
        now = time.monotonic()
        longest = max(longest, now - last)
        last = now
wrong += sum(data[i * 4096] != (i + version[i]) % 251 for i in range(pages))
print('wrong', wrong, 'longest', int(longest * 1000), flush=True)
)";

}  // namespace comex::test
