#include "bench/prefetch/load_graph.h"

#include <bit>
#include <cmath>

#include "bench/paging/load_order.h"

namespace comex::bench {

namespace {

constexpr double kSourceZero = 0.76;       // a + b, as in Graph500: that a bit of the source is 0
constexpr std::uint64_t kLeastEdges = 16;  // of a vertex, on average
constexpr std::uint64_t kGamma = 0x9e3779b97f4a7c15;

unsigned scale_for(std::uint64_t bytes, std::uint64_t bytes_per_vertex) {
  const std::uint64_t each = bytes_per_vertex + sizeof(std::uint32_t) * (1 + kLeastEdges);
  return static_cast<unsigned>(std::bit_width(bytes / each)) - 1;
}

}  // namespace

LoadGraph::LoadGraph(std::uint64_t bytes, std::uint64_t bytes_per_vertex, std::uint64_t seed)
    : scale_(scale_for(bytes, bytes_per_vertex)),
      edges_((bytes - (bytes_per_vertex + sizeof(std::uint32_t)) * vertices()) / sizeof(std::uint32_t)),
      seed_(seed),
      rows_(vertices() + 1),
      targets_(edges_ + vertices()) {}  // rounding may give a vertex one more than the average

std::uint32_t LoadGraph::degree(std::uint32_t label) const {
  const int ones = std::popcount(unlabel(label));
  const double average = static_cast<double>(edges_) * std::pow(1 - kSourceZero, ones) *
                         std::pow(kSourceZero, static_cast<int>(scale_) - ones);
  const double uniform = static_cast<double>(mix(seed_ + label * kGamma) >> 11) * 0x1p-53;
  return static_cast<std::uint32_t>(average + uniform);
}

// All bits at once: where the source has a 0 a bit is 1 with the chance 1/4, where it has a 1 with 7/32.
std::uint32_t LoadGraph::target(std::uint32_t label, std::uint32_t index) const {
  const std::uint64_t one = mix(seed_ ^ (std::uint64_t{label} << 32 | index));
  const std::uint64_t two = mix(one + kGamma);
  const std::uint64_t three = mix(two + kGamma);
  const auto quarter = static_cast<std::uint32_t>(one & one >> 32);
  const auto seven_eighths = static_cast<std::uint32_t>(two | two >> 32 | three);
  return this->label(quarter & (~unlabel(label) | seven_eighths) & (vertices() - 1));
}

void LoadGraph::make() {
  std::uint32_t edge = 0;
  for (std::uint32_t vertex = 0; vertex < vertices(); ++vertex) {
    const std::uint32_t count = degree(vertex);
    for (std::uint32_t i = 0; i < count; ++i) targets_[edge + i] = target(vertex, i);
    edge += count;
    rows_[vertex + 1] = edge;
  }
}

std::string LoadGraph::check() const {
  std::uint32_t edge = 0;
  for (std::uint32_t vertex = 0; vertex < vertices(); ++vertex) {
    const std::uint32_t count = degree(vertex);
    if (rows_[vertex + 1] - edge != count) return "the row of vertex " + std::to_string(vertex) + " is wrong";
    for (std::uint32_t i = 0; i < count; ++i) {
      if (targets_[edge + i] != target(vertex, i)) return "edge " + std::to_string(edge + i) + " is wrong";
    }
    edge += count;
  }
  return {};
}

}  // namespace comex::bench
