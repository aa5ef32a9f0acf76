// The program that `comex bench prefetch` measures with: it makes its data, works on them, timed, and checks that every
// byte it needed was right. Each kind of work is a small class behind one interface. As the load of `comex bench
// paging`, it knows nothing of comex and links nothing but the C++ library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace comex::bench {

// Not thread-safe.
class LoadWork {
 public:
  virtual ~LoadWork() = default;
  // Writes the data, all of which follows from the seed.
  virtual void prepare() = 0;
  // What is timed.
  virtual void work() = 0;
  // One line on what is wrong with the data or the result; empty when nothing is. May take as long as prepare().
  [[nodiscard]] virtual std::string check() = 0;
  // The same on every system.
  [[nodiscard]] virtual std::uint64_t result() const = 0;
  // Of the data, for spoiling a byte: shows that the check finds it.
  [[nodiscard]] virtual std::byte* data() = 0;
};

// In the order of the tables.
const std::vector<std::string_view>& load_names();

// About `bytes` of memory. Nothing for a name that is none, and where the memory cannot be had; then errno says why.
// REQUIRES: bytes >= kLeastLoadBytes.
std::unique_ptr<LoadWork> make_load_work(std::string_view name, std::uint64_t bytes, std::uint64_t seed);
inline constexpr std::uint64_t kLeastLoadBytes = std::uint64_t{1} << 20;

struct LoadTimes {
  double prepare_seconds = 0;
  double seconds = 0;
  std::uint64_t result = 0;
  std::string wrong;
};

// `corrupt`: a byte of the data to spoil before the work.
LoadTimes run_load_work(LoadWork& work, std::optional<std::uint64_t> corrupt);

// One line.
std::string to_json(std::string_view name, const LoadTimes& times);

}  // namespace comex::bench
