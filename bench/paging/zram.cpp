#include "bench/paging/zram.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <thread>

#include "base/clock.h"
#include "bench/paging/kernel_file.h"
#include "bench/paging/program.h"

namespace comex::bench {

namespace {

constexpr const char* kControl = "/sys/class/zram-control";
constexpr Millis kFreeWithin{3000};  // whoever looks at new block devices may have it open for a moment
constexpr Millis kModprobeLimit{10'000};

bool has_zram() {
  return ::access(fmt::format("{}/hot_add", kControl).c_str(), F_OK) == 0;
}

Expected<void> remove_device(const std::string& number) {
  const Deadline deadline(kFreeWithin);
  for (;;) {
    Expected<void> removed = write_kernel_file(fmt::format("/sys/block/zram{}/reset", number), "1");
    if (removed) removed = write_kernel_file(fmt::format("{}/hot_remove", kControl), number);
    if (removed || deadline.passed()) return removed;
    std::this_thread::sleep_for(Millis(10));
  }
}

}  // namespace

Expected<std::unique_ptr<SwapArea>> Zram::create(std::uint64_t bytes) {
  if (!has_zram()) {
    static_cast<void>(run_program({"modprobe", "zram"}, {"/dev/null", -1, kModprobeLimit}));  // seen by the next line
    if (!has_zram()) return Error{Errc::unsupported, "this kernel has no zram (modprobe zram)"};
  }
  Expected<std::string> number = read_kernel_file(fmt::format("{}/hot_add", kControl));
  if (!number) return number.error();
  std::unique_ptr<Zram> device(new Zram(*std::move(number)));
  Expected<void> sized =
      write_kernel_file(fmt::format("/sys/block/zram{}/disksize", device->number_), std::to_string(bytes));
  if (!sized) return sized.error();
  Expected<void> written = write_swap_header(device->path_, bytes);
  if (!written) return written.error();
  return std::unique_ptr<SwapArea>(std::move(device));
}

Zram::~Zram() {
  static_cast<void>(remove_device(number_));  // one that stays is removed by the next run
}

Expected<void> Zram::remove_leftovers(const std::vector<std::string>& swaps) {
  constexpr std::string_view kPrefix = "zram";
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator("/sys/block", failed)) {
    const std::string name = entry.path().filename();
    const std::string device = "/dev/" + name;
    if (!name.starts_with(kPrefix) || !has_our_swap_header(device)) continue;
    if (std::find(swaps.begin(), swaps.end(), device) != swaps.end()) {
      Expected<void> stopped = stop_swapping(device);
      if (!stopped) return stopped;
    }
    Expected<void> removed = remove_device(name.substr(kPrefix.size()));
    if (!removed) return removed;
  }
  return {};
}

}  // namespace comex::bench
