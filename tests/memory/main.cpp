// A program whose memory is of a kind that may not be noticed, or not be let go: what it has forbidden itself, and the
// objects of C++. Verifies what it wrote, and prints how much was wrong, and how many mebibytes of it were here.
//
//   memory_load hidden|objects MEBIBYTES
#include <sys/mman.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

namespace {

constexpr std::size_t kPage = 4096;

// Private memory that is here, in mebibytes.
long local() {
  std::FILE* const file = std::fopen("/proc/self/status", "r");
  if (file == nullptr) return -1;
  long kibibytes = -1024;
  std::array<char, 256> line{};
  while (std::fgets(line.data(), line.size(), file) != nullptr) {
    if (std::sscanf(line.data(), "RssAnon: %ld", &kibibytes) == 1) break;
  }
  std::fclose(file);
  return kibibytes / 1024;
}

char* map(std::size_t bytes) {
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  return static_cast<char*>(memory);
}

void write(char* memory, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; i += kPage) std::memcpy(memory + i, &i, sizeof i);
}

std::size_t wrong_in(const char* memory, std::size_t bytes) {
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < bytes; i += kPage) wrong += std::memcmp(memory + i, &i, sizeof i) != 0;
  return wrong;
}

// Written, and then forbidden to itself, while other memory is used again and again.
std::size_t hidden(std::size_t mebibytes) {
  const std::size_t bytes = mebibytes << 20;
  char* const forbidden = map(bytes);
  write(forbidden, bytes);
  if (mprotect(forbidden, bytes, PROT_NONE) != 0) std::abort();
  constexpr std::size_t kUsed = std::size_t{6} << 20;
  constexpr int kPasses = 20;
  char* const used = map(kUsed);
  write(used, kUsed);
  std::size_t wrong = 0;
  for (int i = 0; i < kPasses; ++i) wrong += wrong_in(used, kUsed);
  if (mprotect(forbidden, bytes, PROT_READ) != 0) std::abort();
  return wrong + wrong_in(forbidden, bytes);
}

// Objects of C++, small ones, some of which do not live long.
std::size_t objects(std::size_t mebibytes) {
  using Object = std::array<std::uint64_t, 64>;
  std::vector<std::unique_ptr<Object>> all;
  for (std::size_t i = 0; i < (mebibytes << 20) / sizeof(Object); ++i) {
    const std::vector<std::size_t> brief(8, i);
    all.push_back(std::make_unique<Object>());
    all.back()->fill(brief[i % brief.size()]);
  }
  std::printf("here: %ld\n", local());
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < all.size(); ++i) wrong += all[i]->front() != i || all[i]->back() != i;
  return wrong;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) return 2;
  const std::string_view kind = arguments[1];
  const std::size_t mebibytes = std::strtoul(arguments[2], nullptr, 10);
  std::printf("wrong: %zu\n", kind == "hidden" ? hidden(mebibytes) : objects(mebibytes));
  return 0;
}
