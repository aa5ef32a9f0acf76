// What `comex bench move` found, in sentences and in JSON.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/units.h"
#include "bench/move_bench.h"

namespace comex::bench {

namespace {

constexpr std::size_t kBar = 24;  // cells of a node's bar

std::uint64_t per_second(std::uint64_t pages, double seconds) {
  return seconds > 0 ? static_cast<std::uint64_t>(static_cast<double>(pages << kPageShift) / seconds) : 0;
}

std::string rate_line(std::string_view what, std::uint64_t pages, double seconds, double waited) {
  const std::string note = waited > seconds / 20 ? fmt::format("  ({:.2f} s of it waiting for frames)", waited) : "";
  return fmt::format("{:<6}{:>10} in {:>6.2f} s  {:>10}/s{}\n", what, format_size(pages << kPageShift), seconds,
                     format_size(per_second(pages, seconds)), note);
}

}  // namespace

std::string to_text(const MoveResult& result) {
  std::string text = rate_line("wrote", result.pages, result.write_seconds, result.seconds_waited) +
                     rate_line("read", result.pages, result.read_seconds, 0) +
                     fmt::format("{} pages checked, {} wrong", result.pages, result.wrong_pages);
  if (result.wrong_pages > 0) text += fmt::format(" ({} bytes)", result.wrong_bytes);
  text += fmt::format("\n\nwhere they were ({} thread{}, {} round{})\n", result.threads, result.threads > 1 ? "s" : "",
                      result.rounds, result.rounds > 1 ? "s" : "");
  std::size_t widest = 0;
  for (const MoveResult::Share& share : result.spread) widest = std::max(widest, share.node.size());
  for (const MoveResult::Share& share : result.spread) {
    const double part = result.pages > 0 ? static_cast<double>(share.pages) / static_cast<double>(result.pages) : 0;
    const auto full = static_cast<std::size_t>(std::lround(part * kBar));
    text += fmt::format("  {:<{}}  {}{}  {:>10}  {:>3.0f} %\n", share.node, widest, std::string(full, '#'),
                        std::string(kBar - full, '-'), format_size(share.pages << kPageShift), part * 100);
  }
  return text;
}

nlohmann::ordered_json to_json(const MoveResult& result) {
  nlohmann::ordered_json json{{"bench", "move"},
                              {"bytes", result.pages << kPageShift},
                              {"pages_checked", result.pages},
                              {"pages_wrong", result.wrong_pages},
                              {"bytes_wrong", result.wrong_bytes},
                              {"threads", result.threads},
                              {"rounds", result.rounds},
                              {"write_seconds", result.write_seconds},
                              {"write_bytes_per_second", per_second(result.pages, result.write_seconds)},
                              {"waiting_for_frames_seconds", result.seconds_waited},
                              {"read_seconds", result.read_seconds},
                              {"read_bytes_per_second", per_second(result.pages, result.read_seconds)},
                              {"nodes", nlohmann::ordered_json::array()}};
  for (const MoveResult::Share& share : result.spread) {
    json["nodes"].push_back({{"url", share.node}, {"pages", share.pages}});
  }
  return json;
}

}  // namespace comex::bench
