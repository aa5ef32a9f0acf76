// comex-evict-load: the program that `comex bench evict` runs under each policy. It writes to as many pages as a string
// of references has, and then reads pages in that order. Usable alone:
//
//   comex-evict-load zipf 16384 1        a string, how many pages may be local, the seed
//
// Prints one line of JSON. Ends with 0 when every page was right, 1 when one was not, 2 when the arguments make no
// sense, 3 when the memory cannot be had.
#include <sys/mman.h>

#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>

#include "bench/evict/references.h"

namespace {

using comex::bench::mix;

constexpr std::size_t kPageWords = 512;

bool read_number(const char* text, std::uint64_t& number) {
  const char* const end = text + std::strlen(text);
  const auto [after, error] = std::from_chars(text, end, number);
  return error == std::errc() && after == end;
}

int run(comex::bench::ReferenceString& string, std::uint64_t seed) {
  const std::size_t bytes = string.pages() * kPageWords * sizeof(std::uint64_t);
  void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) {
    std::perror("comex-evict-load: cannot map the memory");
    return 3;
  }
  madvise(at, bytes, MADV_NOHUGEPAGE);
  auto* const words = static_cast<std::uint64_t*>(at);
  for (std::uint64_t page = 0; page < string.pages(); ++page) words[page * kPageWords] = mix(seed + page);
  std::uint64_t wrong = 0;
  const auto begin = std::chrono::steady_clock::now();
  for (std::uint64_t i = 0; i < string.length(); ++i) {
    const std::uint64_t page = string.next();
    wrong += words[page * kPageWords] == mix(seed + page) ? 0 : 1;
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  std::printf(R"({"seconds":%.6f,"pages_wrong":%llu})"
              "\n",
              took.count(), static_cast<unsigned long long>(wrong));
  return wrong == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  std::uint64_t local = 0;
  std::uint64_t seed = 0;
  const auto references = argc == 4 ? comex::bench::parse_references(argv[1]) : std::nullopt;
  if (!references || !read_number(argv[2], local) || !read_number(argv[3], seed) || local < 64) {
    std::fputs("usage: comex-evict-load loop|zipf|hot-scan|sequential|random LOCAL_PAGES SEED\n", stderr);
    return 2;
  }
  comex::bench::ReferenceString string(*references, local, seed);
  return run(string, seed);
}
