#include "bench/prefetch/load.h"

#include <array>
#include <chrono>
#include <cstdio>

#include "bench/prefetch/load_kinds.h"
#include "bench/prefetch/load_visits.h"

namespace comex::bench {

namespace {

template <typename Work>
double seconds_of(const Work& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

const std::vector<std::string_view>& load_names() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> all(kVisitNames.begin(), kVisitNames.end());
    all.insert(all.end(), {"bfs", "pagerank", "matrix", "merge-sort"});
    return all;
  }();
  return names;
}

std::unique_ptr<LoadWork> make_load_work(std::string_view name, std::uint64_t bytes, std::uint64_t seed) {
  if (name == "bfs") return make_breadth_first(bytes, seed);
  if (name == "pagerank") return make_page_rank(bytes, seed);
  if (name == "matrix") return make_matrix_product(bytes, seed);
  if (name == "merge-sort") return make_merge_sort(bytes, seed);
  return make_page_walk(name, bytes, seed);
}

LoadTimes run_load_work(LoadWork& work, std::optional<std::uint64_t> corrupt) {
  LoadTimes times;
  times.prepare_seconds = seconds_of([&] { work.prepare(); });
  if (corrupt) work.data()[*corrupt] ^= std::byte{1};
  times.seconds = seconds_of([&] { work.work(); });
  times.wrong = work.check();
  times.result = work.result();
  return times;
}

std::string to_json(std::string_view name, const LoadTimes& times) {
  std::array<char, 256> line{};
  std::snprintf(line.data(), line.size(),
                R"({"workload":"%.*s","prepare_seconds":%.6f,"seconds":%.6f,"result":"%016llx","right":%s})",
                static_cast<int>(name.size()), name.data(), times.prepare_seconds, times.seconds,
                static_cast<unsigned long long>(times.result), times.wrong.empty() ? "true" : "false");
  return line.data();
}

}  // namespace comex::bench
