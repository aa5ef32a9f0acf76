// rdma_read_lat URL SECRET_FILE COUNT: how long a read of one page takes over a link, in microseconds, as ib_read_lat
// (perftest) tells it of the device: one page over and over, by the processor's counter, for to look at a guest's clock
// may take as long as a twentieth of the read. Prints the fastest and the middle one.
#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <x86intrin.h>

#include "fabric/connect.h"
#include "fabric/link.h"

namespace {

using namespace comex;

double ticks_per_microsecond() {
  constexpr Millis kLook{500};
  const auto start = Clock::now();
  const auto first = __rdtsc();
  std::this_thread::sleep_for(kLook);
  const auto ticks = static_cast<double>(__rdtsc() - first);
  return ticks / std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

Expected<std::vector<double>> read_over_and_over(const char* where, const char* secret_file, std::size_t count) {
  auto url = parse_url(where);
  if (!url) return url.error();
  LinkOptions options;
  std::ifstream secret(secret_file);
  std::getline(secret, options.secret);
  auto link = connect(*url, options);
  if (!link) return link.error();
  const auto granted = (*link)->grant(1);
  if (!granted) return granted.error();
  void* const memory = ::mmap(nullptr, kPageSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return Error{Errc::no_memory, "no memory for a page"};
  auto* const page = static_cast<std::byte*>(memory);
  if (auto known = (*link)->enlist({page, kPageSize}); !known) return known.error();

  const double rate = ticks_per_microsecond();
  std::vector<double> took;
  const std::size_t warm_up = count / 10;
  for (std::size_t i = 0; i < count + warm_up; ++i) {
    const Segment segment{granted->extents.front().first, 1, page};
    Transfer transfer(Direction::read, std::span(&segment, 1));
    const auto start = __rdtsc();
    const Errc result = (*link)->move(transfer);
    const auto end = __rdtsc();
    if (result != Errc::ok) return Error{result, "a read failed"};
    if (i >= warm_up) took.push_back(static_cast<double>(end - start) / rate);
  }
  (*link)->bye();
  return took;
}

}  // namespace

int main(int argc, char** argv) {
  const std::size_t count = argc == 4 ? std::strtoul(argv[3], nullptr, 10) : 0;
  if (count == 0) return 2;
  auto took = read_over_and_over(argv[1], argv[2], count);
  if (!took) {
    fmt::print(stderr, "rdma_read_lat: {}\n", took.error().message);
    return 1;
  }
  std::sort(took->begin(), took->end());
  fmt::print("{:.2f} {:.2f}\n", took->front(), (*took)[count / 2]);
  return 0;
}
